// When is a result right? The rule for one element, the same on CPU and GPU, and the tally over a
// matrix.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "harness/inputs.h"
#include "harness/problem.h"

namespace gemm {

// Root mean square of a product of two uniform inputs.
constexpr double PRODUCT_RMS = 1.0 / 3;
constexpr double FLOAT_ROUNDOFF = 1.0 / (1 << 24);

GEMM_HOST_DEVICE inline bool is_power_of_two(float x) {
  int exponent;
  const float significand = frexpf(x, &exponent);
  return significand == 0.5f || significand == -0.5f;
}

// The largest |got - want| that is right; 0: bit for bit, `want` rounded once to the output type.
// With u = 2^-24, u_out the output type's unit roundoff, s = 1/3 a uniform product's root mean
// square, and e = Problem::product_error, which a rung declares that splits its inputs:
//
//   sums       0: everything is exact (the verifier takes scalars that keep it so)
//   products   0 where e = 0: one rounding to float, one to the output. Of tensor cores, or after
//              alpha, what is below the least normal float may be flushed
//              e |want| + roundings else
//   uniform    s |alpha| u K (10 + [tensor cores] sqrt(K) / 2)                the accumulator
//              + u_out |want| + 2 u (|want| + |beta|)                         the output
//              + [tf32] 2^-10 (4 s |alpha| sqrt(K) + 2 (|want| + |beta|))     TF32's inputs
//              + [FP8] s |alpha| 2^-13 (10 sqrt(K) + 128)                     its tensor cores' sums
//              + [FP8, fast] s |alpha| 2^-13 K (2 + sqrt(K) / 32)             never promoted
//              + e (4 s |alpha| sqrt(K) + |want| + |beta|)                    split inputs
//              + [scales] 3 u (4 s |alpha| sqrt(K) + |want| + |beta|)
//
// `scale`, the epilogue's at this element, multiplies alpha, and so do the largest block scales. A
// bias counts as beta = 1.
//
// 10: a float sum in order of K errs by 0.30 s u K (root mean square), and P(error > t s u K) falls
// as exp(-3.9 t): measured, and what a random walk's rounding gives. At t = 10 that is 1e-17.
// sqrt(K) / 2: tensor cores truncate when they align, every 8 or 16 k, so their errors add up like
// the sums themselves: 0.05 sqrt(K) s u K (root mean square), 10 times of which nobody exceeds.
// An accumulator of 11 bits errs by 2^13 times the first; TF32 inputs by 0.58 2^-11 s sqrt(K): above
// this bound for the typical element at K = 65536, and for the worst of a tile at any K.
// FP8: tensor cores keep 14 bits of a sum, so each instruction cuts units of 2^-13 of the largest
// term. Promoted every 128 of k that adds up to 0.9 s 2^-13 sqrt(K) (root mean square, by a model of
// the instruction), 11 times of which is allowed, and 128 units for the tail of short sums. Never
// promoted, sums lose 0.12 s 2^-13 K at K = 1024 and 0.23 at 65536, always towards zero: more than a
// promoted sum may, from K = 1024 on.
GEMM_HOST_DEVICE inline double largest_block_scales(const Problem& p) {
  return info(p.dtype).has_block_scales() ? 1.5 * 1.5 : 1;  // of uniform inputs: see inputs.h
}
GEMM_HOST_DEVICE inline double allowed_error(const Problem& p, Inputs kind, double want,
                                             double scale = 1) {
  constexpr double u = FLOAT_ROUNDOFF;
  const ElementInfo out = info(info(p.dtype).out);
  const double u_out = out.roundoff(), e = p.product_error;
  const double alpha = fabs(p.alpha * scale) * largest_block_scales(p), size = fabs(want), K = p.K;
  const double beta = fabs(p.beta) + p.operands.biases();
  const double tiny = out.tiny;
  if (kind == Inputs::uniform) {
    const double walk = PRODUCT_RMS * alpha * sqrt(K);
    const bool tensor = info(p.dtype).unit != Unit::ffma;
    const Accumulation sums = info(p.dtype).accumulation;
    double cut = 0;
    if (sums != Accumulation::full) cut = 10 * sqrt(K) + 128;
    if (sums == Accumulation::fast) cut += K * (2 + sqrt(K) / 32);
    return PRODUCT_RMS * alpha * cut / (1 << (FAST_SUM_BITS - 1)) +
           walk * sqrt(K) * u * (tensor ? 10 + sqrt(K) / 2 : 10) + u_out * size +
           2 * u * (size + beta) +
           (info(p.dtype).rounds_factors() ? (4 * walk + 2 * (size + beta)) / (1 << 10) : 0) +
           e * (4 * walk + size + beta) +
           (p.operands.scales() == 0 ? 0 : 3 * u * (4 * walk + size + beta)) + tiny;
  }
  if (kind == Inputs::products) {
    const double least = tiny * fmax(1.0, alpha);  // the product itself may be subnormal
    const bool flushed = size > 0 && size < least && tiny < 1e-30 &&
                         (alpha != 1 || info(p.dtype).unit != Unit::ffma);
    return e != 0 ? (u_out + 2 * u + e) * size + tiny : flushed ? least : 0;
  }
  if (kind == Inputs::sums || exact_scalars(p)) return 0;
  return (u_out + 2 * u) * (beta == 0 ? size : 2 * (size + 3 * beta)) + tiny;
}

// What an element should be, of its value before the activation.
GEMM_HOST_DEVICE inline double wanted(const Problem& p, double before) {
  double x[1] = {before};
  p.epilogue().activate(x);
  return x[0];
}
// The bound after the activation: as many times the error before it as it is steep, its own error
// in single precision, and unless it is exact a second rounding to the output.
GEMM_HOST_DEVICE inline double allowed_after_activation(const Problem& p, Inputs kind,
                                                        double before, double scale = 1) {
  const double bound = allowed_error(p, kind, before, scale);
  const ActivationInfo activation = info(p.activation);
  if (activation.roundings == 0) return bound * activation.slope;
  const ElementInfo out = info(info(p.dtype).out);
  // Fused kernels may take tanh.approx where C is bf16: 2^-11 of it, so 2^-12 of x.
  const double own = activation.roundings > 1 && info(p.dtype).out == Element::bf16 ? 0x1p-12 : 0;
  return bound * activation.slope + (activation.roundings * FLOAT_ROUNDOFF + own) * fabs(before) +
         out.roundoff() * fabs(wanted(p, before)) + out.tiny;
}

// An element of C before the activation, and the epilogue's scale there.
struct BeforeActivation {
  double value, scale;
};
struct Expected {
  double want, bound;
};
GEMM_HOST_DEVICE inline Expected expected(const Problem& p, Inputs kind, BeforeActivation x) {
  return {wanted(p, x.value), allowed_after_activation(p, kind, x.value, x.scale)};
}
// What a gated element should be, given its gate. Both factors may err, and their product is
// rounded. Sums of integers are exact also then.
GEMM_HOST_DEVICE inline Expected expected_product(const Problem& p, Inputs kind, Expected gate,
                                                  BeforeActivation value) {
  const double bound = allowed_error(p, kind, value.value, value.scale);
  const double want = gate.want * value.value;
  if (kind == Inputs::sums && gate.bound == 0 && bound == 0) return {want, 0};
  const ElementInfo out = info(info(p.dtype).out);
  return {want, fabs(gate.want) * bound + fabs(value.value) * gate.bound + gate.bound * bound +
                    (out.roundoff() + 2 * FLOAT_ROUNDOFF) * fabs(want) + out.tiny};
}
// Element (row, col) of C, by its row of all; before(row, n): that of the product's column n.
template <class Before>
GEMM_HOST_DEVICE Expected expected_at(const Problem& p, Inputs kind, int64_t row, int64_t col,
                                      Before&& before) {
  const Expected first = expected(p, kind, before(row, p.gated ? 2 * col : col));
  return p.gated ? expected_product(p, kind, first, before(row, 2 * col + 1)) : first;
}

// Whether an element is right. `rounded`: `want` as its type holds it. What is exact is compared with
// its sign also where it is 0: sums begin with +0, and by IEEE +0 - 0 is +0.
GEMM_HOST_DEVICE inline bool is_right(const Problem& p, Inputs kind, const Expected& x, double got,
                                      double rounded) {
  if (x.bound == 0 && x.want == 0 && kind != Inputs::integers && p.alpha > 0 && !p.gated &&
      p.activation == Activation::none && got == 0 && copysign(1.0, got) < 0)
    return false;
  if (kind == Inputs::products && x.want != x.want) return got != got;  // NaN
  const double error = fabs(got - x.want);
  return got == rounded ||                        // also where both are infinite
         (error <= x.bound && error < INFINITY);  // written so that NaN is wrong
}

// The largest error of products that a rung of this type may declare: three TF32 products for one in FP32.
inline double most_product_error(DType dtype) { return dtype == DType::f32 ? 0x1p-19 : 0; }

// A typical Sum |scale alpha a b| + |beta c| + |bias| of uniform inputs: what errors are told in.
inline double typical_magnitude(const Problem& p) {
  const double scale = std::pow(1.5, p.operands.scales()) * largest_block_scales(p);  // the largest
  return scale * std::abs(p.alpha) * p.K / 4.0 + (std::abs(p.beta) + p.operands.biases()) / 2.0;
}

// An error in roundings of single precision: see CheckResult.
inline double roundings(const Problem& p, double error) {
  const double factors = p.gated ? 2 : 1;
  return error == 0 ? 0 : error / (std::pow(typical_magnitude(p), factors) * FLOAT_ROUNDOFF);
}

struct CheckResult {
  uint64_t elements = 0;     // of C that were compared
  uint64_t wrong = 0;        // of those, outside the bound (or not bit-equal); NaN is always wrong
  uint64_t overwritten = 0;  // elements of guards and row gaps that changed
  int64_t row = -1, col = -1;  // the worst element (largest error over bound), when wrong > 0
  int64_t product = -1;        // of a batch, which product's element that is
  double got = 0, want = 0, bound = 0;
  // The largest |got - want|, and that in roundings of single precision: over 2^-24 times the
  // typical magnitude. Infinite when an element is NaN.
  double max_error = 0, max_error_roundings = 0;
  double max_used = 0;          // largest |got - want| over its bound, where that is not 0
  int64_t overwritten_at = -1;  // index in the allocation of the first changed guard element
  bool ok() const { return wrong == 0 && overwritten == 0; }
};

// Sets the worst element's place by its row of all.
inline void set_place(CheckResult& r, const Problem& p, int64_t row, int64_t col) {
  r.row = p.M > 0 ? row % p.M : row;
  r.col = col;
  if (products(p) > 1) r.product = product_of_row(p, row);
}

// "3 of 16384 elements wrong, worst C[5][7] = 1.5, should be 2 (allowed error 0)"; "ok" when ok.
std::string describe(const CheckResult& r);

}  // namespace gemm
