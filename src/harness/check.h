// When is a result right? The rule for one element, the same on CPU and GPU, and the tally over a
// matrix.
#pragma once

#include <cstdint>
#include <string>

#include "harness/inputs.h"
#include "harness/problem.h"

namespace gemm {

// Integers are compared exactly with the double-precision result rounded once to the output type.
// Otherwise
//   |got - want| <= c * (K + 2) * u * (|alpha| |A||B| + |beta C|)_ij + u_out * |want| + tiny
// with u = 2^-24 (float's unit roundoff), u_out that of the output type (f16 2^-11, bf16 2^-8), and
//   c = 1 for f32: what no order of FP32 summation can exceed, and nothing looser;
//   c = 4 for f16, bf16 and tf32: tensor cores truncate when they align partial sums;
//   tf32 adds 2 * 2^-11 * |A||B|, the rounding of its two inputs, and a rung that keeps numbers in
//   two parts its product_error * |A||B|. tiny = 2^-24 for f16 (subnormal
//   outputs), else 2^-126;
//   beta != 0 adds u_out * (|want| + |beta|), for |C| <= 1: cuBLAS rounds some products to half
//   before it adds beta * C (seen at 64 x 136 x 48; its math modes do not prevent it).
GEMM_HOST_DEVICE inline double allowed_error(const Problem& p, double want, double magnitude) {
  const double u = 1.0 / (1 << 24);
  const double c = p.dtype == DType::f32 ? 1 : 4;
  const double u_out = p.dtype == DType::f16    ? 1.0 / (1 << 11)
                       : p.dtype == DType::bf16 ? 1.0 / (1 << 8)
                                                : u;
  const double inputs = (p.dtype == DType::tf32 ? 1.0 / (1 << 10) : 0) + p.product_error;
  const double tiny = p.dtype == DType::f16 ? u : 1.2e-38;
  const double size = want < 0 ? -want : want;
  const double before_beta = p.beta == 0 ? 0 : size + (p.beta < 0 ? -p.beta : p.beta);
  return (c * (p.K + 2.0) * u + inputs) * magnitude + u_out * (size + before_beta) + tiny;
}

// An error in roundings of single precision: see CheckResult.
GEMM_HOST_DEVICE inline double roundings(double error, double magnitude) {
  return error == 0 ? 0 : error / (magnitude / (1 << 24));
}

struct CheckResult {
  uint64_t elements = 0;     // of C that were compared
  uint64_t wrong = 0;        // of those, outside the bound (or not bit-equal); NaN is always wrong
  uint64_t overwritten = 0;  // elements of guards and row gaps that changed
  int64_t row = -1, col = -1;  // the worst element (largest error over bound), when wrong > 0
  double got = 0, want = 0, bound = 0;
  // The largest |got - want|, and the largest such error over 2^-24 (|alpha| |A||B| + |beta C|)_ij:
  // in roundings of single precision. Infinite when an element is NaN.
  double max_error = 0, max_error_roundings = 0;
  int64_t overwritten_at = -1;  // index in the allocation of the first changed guard element
  bool ok() const { return wrong == 0 && overwritten == 0; }
};

// "3 of 16384 elements wrong, worst C[5][7] = 1.5, should be 2 (allowed error 0)"; "ok" when ok.
std::string describe(const CheckResult& r);

// Integer inputs give bit-exact results only if alpha and beta do: multiples of 1/4 no larger
// than 8.
bool exact_scalars(const Problem& p);

}  // namespace gemm
