#include "harness/host_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/bf16.h"
#include "sim/half.h"

namespace gemm {
namespace {

template <class T>
T from_bits(uint32_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Calls visit(index in the allocation, row, col) for every element; row = -1 in guards and row
// gaps.
template <class Visit>
void for_each_element(const MatrixLayout& l, Visit visit) {
  for (int64_t i = 0; i < l.elements; ++i) {
    const int64_t at = i - l.first;
    const bool inside = at >= 0 && l.ld > 0 && at / l.ld < l.rows && at % l.ld < l.cols;
    visit(i, inside ? at / l.ld : -1, inside ? at % l.ld : -1);
  }
}

template <class T>
void fill(T* x, const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  const MatrixLayout l = layout(p, operand);
  const uint64_t matrix = matrix_seed(seed, static_cast<int>(operand));
  const T nan = from_bits<T>(sizeof(T) == 2 ? 0x7FFF : 0x7FFFFFFF);
  const T canary = from_bits<T>(CANARY * 0x10001u);
  for_each_element(l, [&](int64_t i, int64_t row, int64_t col) {
    if (row < 0)
      x[i] = operand == Operand::C ? canary : nan;
    else if (operand == Operand::C && p.beta == 0)
      x[i] = nan;
    else
      x[i] = T(random_value(matrix, row * l.cols + col, kind));
  });
}

template <class T>
CheckResult check(const T* c, const Problem& p, const HostReference& reference, bool exact) {
  CheckResult r;
  double worst = -1;
  const T canary = from_bits<T>(CANARY * 0x10001u);
  for_each_element(layout(p, Operand::C), [&](int64_t i, int64_t row, int64_t col) {
    if (row < 0) {
      if (std::memcmp(&c[i], &canary, sizeof(T)) == 0) return;
      if (r.overwritten++ == 0) r.overwritten_at = i;
      return;
    }
    ++r.elements;
    const double got = static_cast<float>(c[i]);
    double want = reference.want[row * p.N + col];
    if (exact) want = round_to(p.dtype, want);
    const double magnitude = reference.magnitude[row * p.N + col];
    const double bound = exact ? 0 : allowed_error(p, want, magnitude);
    const double error = std::abs(got - want);
    const double known = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    r.max_error = std::max(r.max_error, known);
    r.max_error_roundings = std::max(r.max_error_roundings, roundings(known, magnitude));
    if (error <= bound || (got == want)) return;  // written so that NaN falls through
    ++r.wrong;
    const double excess =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : error - bound;
    if (excess > worst) {
      worst = excess;
      r.row = row, r.col = col, r.got = got, r.want = want, r.bound = bound;
    }
  });
  return r;
}

// Calls visit(T()) with the type that the matrices of `dtype` hold.
template <class Visit>
auto with_element(DType dtype, Visit visit) {
  if (dtype == DType::f16) return visit(sim::half());
  if (dtype == DType::bf16) return visit(sim::bf16());
  return visit(float());
}

}  // namespace

double round_to(DType dtype, double x) {
  // One rounding: the products of integers and the inputs that come here are exact as floats, so
  // double -> float does not round.
  const float f = static_cast<float>(x);
  return with_element(dtype, [f](auto t) -> double { return static_cast<float>(decltype(t)(f)); });
}

void fill_host(void* allocation, const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  with_element(p.dtype, [&](auto t) {
    fill(static_cast<decltype(t)*>(allocation), p, operand, kind, seed);
  });
}

CheckResult check_host(const void* c, const Problem& p, const HostReference& reference,
                       bool exact) {
  return with_element(p.dtype, [&](auto t) {
    return check(static_cast<const decltype(t)*>(c), p, reference, exact);
  });
}

}  // namespace gemm
