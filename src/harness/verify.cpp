#include "harness/verify.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/nvtx.h"

namespace gemm {
namespace {

constexpr int PAD = 64;  // elements; see Layouts

Problem with_pad(Problem p, int ld_pad) {
  if (products(p) > 1) p.batch_pad += ld_pad - p.ld_pad;  // a gap between products, too
  p.ld_pad = ld_pad;
  return p;
}

// The problem with scalars that keep a pass bit for bit: its own where they do, else 1. What other
// scalars do is the uniform pass's to see.
Problem with_exact_scalars(Problem p, Inputs kind) {
  const float alpha = std::abs(p.alpha);
  if (kind == Inputs::sums && !exact_scalars(p)) {
    if (alpha != 0) p.alpha = 1;
    if (p.beta != 0) p.beta = 1;
  }
  const bool exact = alpha == 0 || (is_power_of_two(alpha) && alpha >= 0x1p-8 && alpha <= 0x1p8);
  if (kind == Inputs::products && !exact) p.alpha = 1;
  return p;
}

}  // namespace

const char* name_of(Inputs kind) {
  switch (kind) {
    case Inputs::integers:
      return "small integers";
    case Inputs::sums:
      return "sums of integers";
    case Inputs::products:
      return "single products";
    case Inputs::uniform:
      return "uniform inputs";
  }
  return "?";
}

Verifier::Verifier(Device& device, const Problem& problem, Layouts layouts, uint64_t seed)
    : device_(device), problem_(problem), layouts_(layouts), seed_(seed) {
  const Problem largest =
      with_pad(problem, problem.ld_pad + (layouts == Layouts::also_padded ? PAD : 0));
  try {
    a_ = device_.allocate(layout(largest, Operand::A).bytes);
    b_ = device_.allocate(layout(largest, Operand::B).bytes);
    c_ = device_.allocate(layout(largest, Operand::C).bytes);
    operands_ = std::make_unique<OperandBuffers>(device_, largest);
  } catch (...) {
    device_.release(a_), device_.release(b_), device_.release(c_);
    throw;
  }
}

Verifier::~Verifier() { device_.release(a_), device_.release(b_), device_.release(c_); }

std::shared_ptr<const Reference> Verifier::reference() {
  if (reference_ == nullptr) reference_ = device_.reference(problem_, seed_);
  return reference_;
}

std::string Verifier::verify(const Rung& rung) {
  const NvtxRange range("verify " + rung.name);
  std::vector<int> pads = {problem_.ld_pad};
  if (layouts_ == Layouts::also_padded) pads.insert(pads.begin(), problem_.ld_pad + PAD);
  for (const int pad : pads)
    for (const Inputs kind : {Inputs::sums, Inputs::products, Inputs::uniform})
      if (std::string why = pass(rung, kind, pad); !why.empty()) return why;
  return "";
}

std::string Verifier::pass(const Rung& rung, Inputs kind, int ld_pad) {
  const NvtxRange range(
      fmt::format("{}{}", name_of(kind), ld_pad ? fmt::format(", ld + {}", ld_pad) : ""));
  Problem p = with_exact_scalars(with_pad(problem_, ld_pad), kind);
  p.product_error = rung.product_error;
  if (filled_ != std::pair(kind, ld_pad)) {
    device_.fill(a_, p, Operand::A, kind, seed_);
    device_.fill(b_, p, Operand::B, kind, seed_);
    operands_->fill(p, kind, seed_);
    filled_ = {kind, ld_pad};
  }
  device_.fill(c_, p, Operand::C, kind, seed_);
  GemmCall call = make_call(p, a_, b_, c_);
  operands_->attach(p, call);
  try {
    const uint64_t passes = epilogue_passes();
    device_.run(rung, call);
    if (epilogue_passes() != passes) p.product_error += info(info(p.dtype).out).roundoff();
  } catch (const LaunchError& e) {
    if (device_.backend() == Backend::gpu) throw;  // the machine refused: no verdict on the rung
    return e.what();
  }
  const CheckResult result =
      device_.check(c_, p, kind, seed_, kind == Inputs::uniform ? reference().get() : nullptr);
  if (kind == Inputs::uniform) uniform_ = result;
  if (result.ok()) return "";
  return fmt::format("{}{}: {}", name_of(kind), result.bound == 0 ? ", bit for bit" : "",
                     describe(result));
}

std::string build_option(int sm) {
  // As CMakeLists.txt chooses it for this machine's GPU.
  return fmt::format("-DCMAKE_CUDA_ARCHITECTURES={}{}-real", sm, sm >= 90 ? "a" : "");
}

std::string unmet_arch(const Needs& needs, int sm, CodeArch code) {
  const std::string needed = fmt::format("needs sm_{}{}", needs.sm, needs.exact_arch ? "a" : "");
  if (sm < needs.sm || (needs.exact_arch && sm != needs.sm))
    return fmt::format("{}, this GPU is sm_{}", needed, sm);
  if (code.sm < needs.sm || (needs.exact_arch && !code.exact))
    return fmt::format("{}, this program was built for sm_{}; {} builds it", needed, code.sm,
                       build_option(sm));
  return "";
}

std::string unmet_need(const Rung& rung, const Problem& p, const Device& device) {
  if (device.backend() == Backend::gpu)  // the simulator runs everything
    if (std::string why = unmet_arch(rung.needs, device.sm(), device.code()); !why.empty())
      return why;
  if (!rung.needs.transposed && (p.op_a == Op::T || p.op_b == Op::T))
    return fmt::format("takes row-major N, N operands only, not {}", ops_name(p));
  if (!rung.needs.groups && p.groups.count > 0) return "takes products of one shape, no groups";
  if (rung.needs.no_activation && !epilogue_name(p).empty())
    return fmt::format("takes alpha and beta only, no {}", epilogue_name(p));
  if (rung.fits && !rung.fits(make_call(p, nullptr, nullptr, nullptr)))
    return fmt::format("variant {} does not take this problem", rung.variants[0].name);
  return "";
}

}  // namespace gemm
