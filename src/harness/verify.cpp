#include "harness/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
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

// The problem with scalars that keep sums of integers exact: its own where they do, else 1. What
// other scalars do is the uniform pass's to see.
Problem with_exact_sums(Problem p) {
  if (exact_scalars(p)) return p;
  if (p.alpha != 0) p.alpha = 1;
  if (p.beta != 0) p.beta = 1;
  return p;
}

// With the power of two next to it, from 2^-8 to 2^8 and of its sign; 0 stays 0.
float power_of_two(float x) {
  if (x == 0 || !std::isfinite(x)) return x;
  return std::copysign(std::ldexp(1.0f, std::clamp(std::ilogb(x), -8, 8)), x);
}

// With the scalars of the padded layout, where a plain product is asked for: negative, and with C.
Problem with_other_scalars(const Problem& p, const Rung& rung) {
  Problem other = p;
  if (p.alpha != 0 && epilogue_name(p).empty() && !rung.needs.product_only)
    other.alpha = -1.25f, other.beta = 0.5f;
  const bool fits = !rung.fits || rung.fits(make_call(other, nullptr, nullptr, nullptr));
  return fits ? other : p;
}

}  // namespace

Problem with_exact_products(Problem p, const Rung& rung) {
  p.alpha = power_of_two(p.alpha), p.beta = power_of_two(p.beta);
  p.wide_range = !rung.narrow_range && p.product_error == 0 && epilogue_name(p).empty();
  return p;
}

std::string excessive_error(const Rung& rung) {
  const double most = most_product_error(rung.dtype);
  if (rung.product_error >= 0 && rung.product_error <= most) return "";
  return fmt::format("it declares products that are {:.2g} off; of {} {}", rung.product_error,
                     to_string(rung.dtype),
                     most == 0 ? "none may be" : fmt::format("{:.2g} is the most", most));
}

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

std::shared_ptr<const Reference> Verifier::reference(const Problem& p) {
  const bool own = p.alpha == problem_.alpha && p.beta == problem_.beta;
  std::shared_ptr<const Reference>& kept = own ? reference_ : padded_reference_;
  if (kept == nullptr) kept = device_.reference(p, seed_);
  return kept;
}

std::string Verifier::verify(const Rung& rung) {
  const NvtxRange range("verify " + rung.name);
  if (std::string why = excessive_error(rung); !why.empty()) return why;
  const int pad = problem_.ld_pad;
  std::vector<std::pair<Inputs, int>> passes = {
      {Inputs::sums, pad}, {Inputs::uniform, pad}, {Inputs::products, pad}};
  if (layouts_ == Layouts::also_padded &&
      !rung.needs.dense)  // what is exact tells more of a layout than a bound
    passes.insert(passes.begin(), {{Inputs::sums, pad + PAD}, {Inputs::products, pad + PAD}});
  for (const auto& [kind, its_pad] : passes)
    if (std::string why = pass(rung, kind, its_pad); !why.empty()) return why;
  if (std::string why = pass(rung, Inputs::products, problem_.ld_pad, true); !why.empty())
    return why;
  return problem_.invariant ? compare_fewer_rows(rung) : "";
}

std::string Verifier::compare_fewer_rows(const Rung& rung) {
  const Problem& p = problem_;
  const MatrixLayout c = layout(p, Operand::C);
  if (p.M == 0 || c.cols == 0) return "";
  const size_t bytes = element_size(p, Operand::C), row_bytes = c.ld * bytes;
  device_.fill(a_, p, Operand::A, Inputs::uniform, seed_);
  device_.fill(b_, p, Operand::B, Inputs::uniform, seed_);
  operands_->fill(p, Inputs::uniform, seed_);
  filled_ = {Inputs::uniform, p};
  // Rows `first` to before `end`, computed alone.
  const auto rows = [&](int first, int end) {
    device_.fill(c_, p, Operand::C, Inputs::uniform, seed_);
    GemmCall call = make_call(p, a_, b_, c_);
    operands_->attach(p, call);
    call.M = end - first;
    const int64_t to_a = p.op_a == Op::N ? first * call.lda : first;
    call.A = static_cast<const char*>(call.A) + to_a * element_size(p, Operand::A);
    call.C = static_cast<char*>(call.C) + first * row_bytes;
    FusedEpilogue& e = call.epilogue;
    if (e.c != nullptr) e.c = static_cast<const char*>(e.c) + first * e.ldc * bytes;
    if (e.row_bias != nullptr) e.row_bias = static_cast<const char*>(e.row_bias) + first * bytes;
    if (e.scale_rows != nullptr) e.scale_rows += first;
    device_.run(rung, call);
    std::vector<char> found(call.M * row_bytes);
    device_.download(found.data(), call.C, found.size() - (c.ld - c.cols) * bytes);
    return found;
  };
  const std::vector<char> all = rows(0, p.M);
  const int middle = p.M / 2 / 64 * 64;  // from a multiple of 128 bytes on: aligned alike
  for (const auto& [first, end] :
       {std::pair(0, 1), {0, p.M / 2 + 1}, {middle, p.M}, {middle, middle + 1}}) {
    const std::vector<char> some = rows(first, end);
    for (int row = first; row < end; ++row)
      if (std::memcmp(&all[row * row_bytes], &some[(row - first) * row_bytes], c.cols * bytes) != 0)
        return fmt::format("row {} has other bits in a call with rows {} to {} alone", row, first,
                           end - 1);
  }
  return "";
}

std::string Verifier::pass(const Rung& rung, Inputs kind, int ld_pad, bool turned) {
  const NvtxRange range(fmt::format("{}{}{}", name_of(kind), turned ? ", once more" : "",
                                    ld_pad ? fmt::format(", ld + {}", ld_pad) : ""));
  Problem p = with_pad(problem_, ld_pad);
  if (ld_pad != problem_.ld_pad) p = with_other_scalars(p, rung);
  p.product_error = rung.product_error;
  if (rung.rounds_products && p.beta != 0) p.product_error += info(info(p.dtype).out).roundoff();
  if (kind == Inputs::sums) p = with_exact_sums(p);
  if (kind == Inputs::products) p = with_exact_products(p, rung);
  p.turned = turned;
  if (filled_ != std::pair(kind, p)) {
    device_.fill(a_, p, Operand::A, kind, seed_);
    device_.fill(b_, p, Operand::B, kind, seed_);
    operands_->fill(p, kind, seed_);
    filled_ = {kind, p};
  }
  device_.fill(c_, p, Operand::C, kind, seed_);
  GemmCall call = make_call(p, a_, b_, c_);
  operands_->attach(p, call);
  try {
    const uint64_t passes = epilogue_passes();
    device_.run(rung, call);
    if (epilogue_passes() != passes && !epilogue_name(p).empty())
      p.product_error += info(info(p.dtype).out).roundoff();
  } catch (const LaunchError& e) {
    if (device_.backend() == Backend::gpu) throw;  // the machine refused: no verdict on the rung
    return e.what();
  }
  const CheckResult result =
      device_.check(c_, p, kind, seed_, kind == Inputs::uniform ? reference(p).get() : nullptr);
  if (kind == Inputs::uniform) uniform_ = result;
  const Problem& filled = filled_->second;
  std::string changed = operands_->changed(filled, kind, seed_);
  if (!device_.is_unchanged(a_, filled, Operand::A, kind, seed_)) changed = "A";
  if (!device_.is_unchanged(b_, filled, Operand::B, kind, seed_)) changed = "B";
  if (!changed.empty()) filled_.reset();
  if (result.ok() && changed.empty()) return "";
  return fmt::format(
      "{}{}{}: {}", name_of(kind),
      turned ? ", after one row of A and one column of B have changed" : "",
      !result.ok() && result.bound == 0 ? ", bit for bit" : "",
      result.ok() ? changed + " is an input, and was overwritten" : describe(result));
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

namespace {
// Why a kernel of a user's own does not take a problem's shape, rows or scalars.
std::string unmet_shape(const Needs& needs, const Problem& p) {
  if (needs.dense && p.ld_pad != 0) return "takes rows without gaps only, no --ld-pad";
  if (needs.product_only && (p.alpha != 1 || p.beta != 0))
    return fmt::format("takes alpha = 1 and beta = 0 only, not {:g} and {:g}", p.alpha, p.beta);
  if ((needs.equal >= 2 && p.M != p.N) || (needs.equal == 3 && p.N != p.K))
    return fmt::format("is right where {} only, not at {}",
                       needs.equal == 3 ? "M = N = K" : "M = N", shape_name(p));
  const std::pair<const char*, int> extents[] = {{"M", p.M}, {"N", p.N}, {"K", p.K}};
  for (int i = 0; i < 3; ++i)
    if (extents[i].second % needs.multiple_of[i] != 0)
      return fmt::format("is right at multiples of {} in {} only, not at {}", needs.multiple_of[i],
                         extents[i].first, extents[i].second);
  if (needs.most_k > 0 && p.K > needs.most_k)
    return fmt::format("is right up to K = {} only, not at {}", needs.most_k, p.K);
  return "";
}
}  // namespace

std::string unmet_need(const Rung& rung, const Problem& p, const Device& device) {
  if (device.backend() == Backend::gpu)  // the simulator runs everything
    if (std::string why = unmet_arch(rung.needs, device.sm(), device.code()); !why.empty())
      return why;
  if (!rung.needs.transposed && (p.op_a == Op::T || p.op_b == Op::T))
    return fmt::format("takes row-major N, N operands only, not {}", ops_name(p));
  if (!rung.needs.groups && p.groups.count > 0) return "takes products of one shape, no groups";
  if (!rung.needs.invariant && p.invariant)
    return "does not keep a row's bits where M differs (--invariant)";
  if (rung.needs.no_activation && !epilogue_name(p).empty())
    return fmt::format("takes alpha and beta only, no {}", epilogue_name(p));
  if (std::string why = unmet_shape(rung.needs, p); !why.empty()) return why;
  if (rung.fits && !rung.fits(make_call(p, nullptr, nullptr, nullptr)))
    return fmt::format("variant {} does not take this problem", rung.variants[0].name);
  return "";
}

}  // namespace gemm
