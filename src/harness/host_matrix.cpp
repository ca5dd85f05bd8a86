#include "harness/host_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/bf16.h"
#include "sim/fp8.h"
#include "sim/half.h"

namespace gemm {
namespace {

template <class T>
T from_bits(uint32_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// Calls visit(index in the allocation, row of all, col) for every element; row = -1 in guards and
// gaps. Row by row: MatrixLayout::element() of each index would divide four times.
template <class Visit>
void for_each_element(const MatrixLayout& l, Visit visit) {
  int64_t i = 0;
  const int64_t rows = l.cols > 0 ? l.all_rows() : 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = l.index(row, 0);
    for (; i < first; ++i) visit(i, -1, -1);
    for (int64_t col = 0; col < l.cols; ++col, ++i) visit(i, row, col);
  }
  for (; i < l.elements; ++i) visit(i, -1, -1);
}

// Flattened here and below: what depends on the row alone leaves the loop over columns.
template <class T>
[[gnu::flatten]] void fill(T* x, const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  const Generator generator(p, kind, seed);
  const T nan = from_bits<T>(0x7FFFFFFFu >> (32 - 8 * sizeof(T)));
  const T canary = from_bits<T>(CANARY * 0x10001u);
  for_each_element(layout(p, operand), [&](int64_t i, int64_t row, int64_t col) {
    if (row < 0)
      x[i] = operand == Operand::C ? canary : nan;
    else if (operand == Operand::C && !reads_d(p))
      x[i] = nan;
    else
      x[i] = T(generator.stored(operand, row, col));
  });
}

template <class T>
CheckResult check(const T* c, const Problem& p, Inputs kind, const HostReference& reference) {
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
    const auto [want, bound] = expected_at(p, kind, row, col, [&](int64_t m, int64_t n) {
      return BeforeActivation{reference.want[m * p.N + n], reference.scale(m, n)};
    });
    const double got = static_cast<float>(c[i]), rounded = round_to(p.dtype, want);
    const bool right = is_right(p, kind, {want, bound}, got, rounded);
    const double error = right && (bound == 0 || got == rounded) ? 0 : std::abs(got - want);
    const double known = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    r.max_error = std::max(r.max_error, known);
    if (bound > 0) r.max_used = std::max(r.max_used, known / bound);
    if (right) return;
    ++r.wrong;
    if (known - bound > worst) {
      worst = known - bound;
      set_place(r, p, row, col);
      r.got = got, r.want = bound == 0 ? rounded : want, r.bound = bound;
    }
  });
  r.max_error_roundings = roundings(p, r.max_error);
  return r;
}

struct HostTypes {
  using f32 = float;
  using f16 = sim::half;
  using bf16 = sim::bf16;
  using f8e4m3 = sim::f8e4m3;
  using f8e5m2 = sim::f8e5m2;
};

}  // namespace

double round_to(DType dtype, double x, Operand operand) {
  // One rounding: what comes here for a half is exact as a float, so double -> float does not round.
  const float f = static_cast<float>(x);
  return with_element<HostTypes>(info(dtype).element(operand), [f](auto t) -> double {
    return static_cast<float>(decltype(t)(f));
  });
}

void fill_host(void* allocation, const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  with_element<HostTypes>(info(p.dtype).element(operand), [&](auto t) {
    fill(static_cast<decltype(t)*>(allocation), p, operand, kind, seed);
  });
}

bool is_unchanged_host(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                       uint64_t seed) {
  std::vector<char> filled(layout(p, operand).bytes);
  fill_host(filled.data(), p, operand, kind, seed);
  return std::memcmp(allocation, filled.data(), filled.size()) == 0;
}

CheckResult check_host(const void* c, const Problem& p, Inputs kind,
                       const HostReference& reference) {
  return with_element<HostTypes>(info(p.dtype).out, [&](auto t) {
    return check(static_cast<const decltype(t)*>(c), p, kind, reference);
  });
}

}  // namespace gemm
