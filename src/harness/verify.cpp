#include "harness/verify.h"

#include <fmt/format.h>

namespace gemm {
namespace {
constexpr uint64_t SEED = 2026;
}

Verifier::Verifier(Device& device, const Problem& problem) : device_(device), problem_(problem) {
  try {
    a_ = device_.allocate(layout(problem_, Operand::A).bytes);
    b_ = device_.allocate(layout(problem_, Operand::B).bytes);
    c_ = device_.allocate(layout(problem_, Operand::C).bytes);
  } catch (...) {
    device_.release(a_), device_.release(b_);
    throw;
  }
}

Verifier::~Verifier() { device_.release(a_), device_.release(b_), device_.release(c_); }

std::string Verifier::verify(const Rung& rung) {
  for (const Inputs kind : {Inputs::integers, Inputs::uniform})
    if (const std::string why = pass(rung, kind); !why.empty()) return why;
  return "";
}

std::string Verifier::pass(const Rung& rung, Inputs kind) {
  const bool exact = kind == Inputs::integers && exact_scalars(problem_);
  const char* const name = exact ? "integer inputs, bit for bit" : "uniform inputs";
  std::unique_ptr<Reference>& reference = references_[kind];
  if (reference == nullptr) reference = device_.reference(problem_, kind, SEED);
  if (!filled_ || filled_kind_ != kind) {
    device_.fill(a_, problem_, Operand::A, kind, SEED);
    device_.fill(b_, problem_, Operand::B, kind, SEED);
    filled_ = true, filled_kind_ = kind;
  }
  device_.fill(c_, problem_, Operand::C, kind, SEED);
  try {
    device_.run(rung, make_call(problem_, a_, b_, c_));
  } catch (const LaunchError& e) {
    return e.what();
  }
  Problem checked = problem_;
  checked.product_error = rung.product_error;
  const CheckResult result = device_.check(c_, checked, *reference, exact);
  if (kind == Inputs::uniform) uniform_ = result;
  return result.ok() ? "" : fmt::format("{}: {}", name, describe(result));
}

std::string unmet_need(const Rung& rung, const Problem& p, const Device& device) {
  if (device.sm() < rung.needs.sm ||
      (rung.needs.exact_arch && device.backend() == Backend::gpu && device.sm() != rung.needs.sm))
    return fmt::format("needs sm_{}{}, this GPU is sm_{}", rung.needs.sm,
                       rung.needs.exact_arch ? "a" : "", device.sm());
  if (!rung.needs.transposed && (p.op_a == Op::T || p.op_b == Op::T))
    return fmt::format("takes row-major N, N operands only, not {}", ops_name(p));
  if (rung.fits && !rung.fits(make_call(p, nullptr, nullptr, nullptr)))
    return fmt::format("variant {} does not take this problem", rung.variants[0].name);
  return "";
}

}  // namespace gemm
