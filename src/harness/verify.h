// A wrong kernel cannot pass, and cannot be timed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harness/device.h"
#include "harness/operand_buffers.h"

namespace gemm {

// In which layouts a problem is verified.
enum class Layouts {
  as_asked,  // with the problem's own ld_pad
  // Also with 64 elements more between rows, so that ld > columns. 64 keep a kernel's alignment
  // class: rows in whole lines of 128 bytes, or not.
  also_padded,
};

// Verifies any number of rungs on one problem, on the device's memory. Three passes, by Inputs'
// names: sums, bit for bit; products, likewise; uniform, within check.h's bound. In every one C holds
// NaN (where it is not read) or known values, guards lie around all matrices, and what the call reads
// is compared afterwards. At last a row of A and a column of B change and nothing else does: a result
// that was kept from an earlier call is wrong. Where rows must keep their bits, calls with fewer rows
// follow.
class Verifier {
 public:
  // Throws std::bad_alloc when the matrices do not fit.
  Verifier(Device& device, const Problem& problem, Layouts layouts = Layouts::as_asked,
           uint64_t seed = SEED);
  ~Verifier();
  Verifier(const Verifier&) = delete;

  // Empty when `rung` is right, else one line that says which pass failed and how. The simulator's
  // diagnosis is reported the same way; a GPU's LaunchError is thrown.
  std::string verify(const Rung& rung);
  // One pass of it, with rows ld_pad elements longer than their matrix: at most 64 more than asked.
  // The padded one has alpha -1.25 and beta 0.5 where a plain product is asked for.
  std::string pass(const Rung& rung, Inputs kind, int ld_pad, bool turned = false);
  // Empty when rows have the same bits in calls with fewer rows: where the problem wants that.
  std::string compare_fewer_rows(const Rung& rung);
  // What the last verify()'s pass over uniform inputs found.
  const CheckResult& uniform() const { return uniform_; }
  // The reference of uniform inputs; made on the first use.
  std::shared_ptr<const Reference> reference() { return reference(problem_); }

 private:
  // The reference of problem_ or, in the padded layout, of that with other scalars.
  std::shared_ptr<const Reference> reference(const Problem& p);

  Device& device_;
  const Problem problem_;
  const Layouts layouts_;
  const uint64_t seed_;
  void* a_ = nullptr;
  void* b_ = nullptr;
  void* c_ = nullptr;
  std::unique_ptr<OperandBuffers> operands_;          // beside A, B and C
  std::optional<std::pair<Inputs, Problem>> filled_;  // what all but C hold
  CheckResult uniform_;
  std::shared_ptr<const Reference> reference_, padded_reference_;
};

// The problem whose single products are exact: scalars are the nearest powers of two. `rung`: for
// what its numbers may be.
Problem with_exact_products(Problem p, const Rung& rung);

// Why a rung's product_error is more than its type allows; empty when it is not.
std::string excessive_error(const Rung& rung);

// What a pass over these inputs is called: "sums of integers".
const char* name_of(Inputs kind);

// Why a rung with these needs cannot run on a GPU of compute capability `sm` by code for `code`;
// empty when it can.
std::string unmet_arch(const Needs& needs, int sm, CodeArch code);

// Why `rung` cannot take this problem on this device; empty when it can.
std::string unmet_need(const Rung& rung, const Problem& p, const Device& device);

}  // namespace gemm
