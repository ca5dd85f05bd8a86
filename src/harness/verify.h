// A wrong kernel cannot pass, and cannot be timed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "harness/device.h"

namespace gemm {

// Verifies any number of rungs on one problem, on the device's memory; inputs and references are
// made once, on first use. Two passes: small integers compared bit for bit (when alpha and beta
// allow it), then uniform inputs within check.h's bound. Every pass: C holds NaN (beta == 0) or
// known values, guards lie around all three matrices.
class Verifier {
 public:
  // Throws std::bad_alloc when the matrices do not fit.
  Verifier(Device& device, const Problem& problem);
  ~Verifier();
  Verifier(const Verifier&) = delete;

  // Empty when `rung` is right, else one line that says which pass failed and how. A LaunchError is
  // reported the same way.
  std::string verify(const Rung& rung);
  const Problem& problem() const { return problem_; }
  // Of the last verify()'s pass over uniform inputs.
  const CheckResult& uniform() const { return uniform_; }

 private:
  std::string pass(const Rung& rung, Inputs kind);

  Device& device_;
  const Problem problem_;
  void* a_ = nullptr;
  void* b_ = nullptr;
  void* c_ = nullptr;
  bool filled_ = false;
  Inputs filled_kind_{};
  CheckResult uniform_;
  std::map<Inputs, std::unique_ptr<Reference>> references_;
};

// Why `rung` cannot take this problem on this device; empty when it can.
std::string unmet_need(const Rung& rung, const Problem& p, const Device& device);

}  // namespace gemm
