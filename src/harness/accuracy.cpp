#include "harness/accuracy.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "device/platform.h"

namespace gemm {

namespace {

constexpr double U = 0x1p-24;  // of the sums, whatever the storage type

// What the classes need to know of a storage type.
struct Range {
  int digits;       // significant bits
  int least, most;  // exponents of the smallest normal number and of the first too large
  int spread;       // classes `wide_rows` and `wide_within`: exponents from -spread to spread
  int balanced;     // class `balanced`, likewise
  int lift;         // class `subnormal`: B is this large, so that results are normal
};
Range range_of(DType dtype) {
  if (dtype == DType::f16) return {11, -14, 16, 3, 8, 10};
  if (dtype == DType::bf16) return {8, -126, 128, 20, 60, 100};
  return {24, -126, 128, 20, 60, 100};
}

template <class Visit>
auto with_storage(DType dtype, Visit visit) {
  if (dtype == DType::f16) return visit(half());
  if (dtype == DType::bf16) return visit(bf16());
  return visit(float());
}

float round_to_storage(DType dtype, double x) {
  return with_storage(dtype, [&](auto t) { return float(decltype(t)(static_cast<float>(x))); });
}

// Fills the matrices. Every class draws its numbers from here alone.
class Generator {
 public:
  Generator(GradedInputs& inputs, uint64_t seed)
      : in_(inputs), range_(range_of(inputs.dtype)), random_(seed) {}

  void fill(const std::string& name) {
    const auto uniform = [&] { return draw(-1, 1); };
    if (name == "uniform") return each(uniform, uniform);
    if (name == "positive") return each([&] { return draw(0, 1); }, [&] { return draw(0, 1); });
    if (name == "normal")
      return each([&] { return normal_(random_); }, [&] { return normal_(random_); });
    if (name == "wide_rows") {
      each(uniform, uniform);
      const std::vector<int> rows = exponents(in_.M, range_.spread);
      const std::vector<int> cols = exponents(in_.N, range_.spread);
      return scale([&](int m, int) { return rows[m]; }, [&](int, int n) { return cols[n]; });
    }
    if (name == "wide_within") {
      const auto wide = [&] { return std::ldexp(uniform(), exponent(range_.spread)); };
      return each(wide, wide);
    }
    if (name == "balanced") {
      each(uniform, uniform);
      const std::vector<int> along_k = exponents(in_.K, range_.balanced);
      return scale([&](int, int k) { return along_k[k]; }, [&](int k, int) { return -along_k[k]; });
    }
    if (name == "subnormal")
      return each([&] { return std::ldexp(uniform(), range_.least); },
                  [&] { return std::ldexp(uniform(), range_.lift); });
    if (name == "huge") {  // sums of |a b| of at most half of the largest number
      const int of_a = range_.most / 2, log_k = static_cast<int>(std::ceil(std::log2(in_.K)));
      return each([&] { return std::ldexp(draw(0.5, 1), of_a); },
                  [&] { return std::ldexp(draw(0.5, 1), range_.most - 1 - of_a - log_k); });
    }
    for (int quarter = 1; quarter <= 3; ++quarter)
      if (name == "cancelling_" + std::to_string(quarter)) return cancel(quarter);
    throw std::invalid_argument("no class of inputs '" + name + "'");
  }

 private:
  double draw(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int exponent(int most) { return std::uniform_int_distribution<int>(-most, most)(random_); }
  std::vector<int> exponents(int count, int most) {
    std::vector<int> all(count);
    for (int& e : all) e = exponent(most);
    return all;
  }
  template <class OfA, class OfB>
  void each(OfA of_a, OfB of_b) {
    for (float& x : in_.a) x = round_to_storage(in_.dtype, of_a());
    for (float& x : in_.b) x = round_to_storage(in_.dtype, of_b());
  }
  // By powers of two: a(m, k) and b(k, n) are the exponents.
  template <class OfA, class OfB>
  void scale(OfA of_a, OfB of_b) {
    for (size_t i = 0; i < in_.a.size(); ++i)
      in_.a[i] = round_to_storage(
          in_.dtype, std::ldexp(double(in_.a[i]), of_a(int(i / in_.K), int(i % in_.K))));
    for (size_t i = 0; i < in_.b.size(); ++i)
      in_.b[i] = round_to_storage(
          in_.dtype, std::ldexp(double(in_.b[i]), of_b(int(i / in_.N), int(i % in_.N))));
  }
  // Products in pairs that cancel but for that many quarters of the type's digits, in any order.
  void cancel(int quarter) {
    const auto uniform = [&] { return draw(-1, 1); };
    each(uniform, uniform);
    const double left = std::ldexp(1, -range_.digits * quarter / 4);
    std::vector<int> order(in_.K);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (int pair = 0; pair + 1 < in_.K; pair += 2) {
      const int64_t k = order[pair], other = order[pair + 1];
      for (int64_t m = 0; m < in_.M; ++m)
        in_.a[m * in_.K + other] =
            round_to_storage(in_.dtype, left * uniform() - in_.a[m * in_.K + k]);
      std::copy_n(&in_.b[k * in_.N], in_.N, &in_.b[other * in_.N]);
    }
    if (in_.K % 2 != 0)
      for (int64_t m = 0; m < in_.M; ++m) in_.a[m * in_.K + order.back()] = 0;
  }

  GradedInputs& in_;
  const Range range_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

double norm(const double* x, int64_t count, int64_t stride = 1) {
  return cblas_dnrm2(static_cast<int>(count), x, static_cast<int>(stride));
}

// A row of A times a column of B in twice the working precision (Ogita, Rump, Oishi 2005).
double dot2(const double* a, const double* b, int count, int64_t stride) {
  double sum = 0, rest = 0;
  for (int k = 0; k < count; ++k) {
    const double product = a[k] * b[k * stride];
    const double product_rest = std::fma(a[k], b[k * stride], -product);
    const double next = sum + product, back = next - sum;
    rest += (sum - (next - back)) + (product - back) + product_rest;
    sum = next;
  }
  return sum + rest;
}

}  // namespace

const std::vector<InputClass>& input_classes() {
  static const std::vector<InputClass> ALL = {
      {"uniform", "uniform in [-1, 1)"},
      {"positive", "uniform in [0, 1): every sum grows"},
      {"normal", "normal, mean 0, variance 1"},
      {"wide_rows", "uniform; rows of A and columns of B times 2^-20 to 2^20 (f16: 2^-3 to 2^3)"},
      {"wide_within", "uniform; every element times its own 2^-20 to 2^20 (f16: 2^-3 to 2^3)"},
      {"balanced", "uniform; A's column k times 2^e, B's row k times 2^-e, e -60 to 60 (f16: 8)"},
      {"cancelling_1", "pairs of products that cancel, but for 1/4 of the type's digits"},
      {"cancelling_2", "the same, but for 1/2 of the digits"},
      {"cancelling_3", "the same, but for 3/4 of the digits"},
      {"subnormal", "A subnormal, B so large that the result is normal"},
      {"huge", "positive, results from an eighth to half of the type's largest number"}};
  return ALL;
}

GradedInputs make_inputs(const std::string& name, DType dtype, int M, int N, int K, uint64_t seed) {
  GradedInputs inputs{
      dtype, M, N, K, std::vector<float>(int64_t{M} * K), std::vector<float>(int64_t{K} * N)};
  Generator(inputs, seed).fill(name);
  return inputs;
}

std::vector<std::byte> to_storage(DType dtype, const std::vector<float>& values) {
  return with_storage(dtype, [&](auto t) {
    using T = decltype(t);
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      const T x = T(values[i]);
      std::memcpy(&bytes[i * sizeof(T)], &x, sizeof(T));
    }
    return bytes;
  });
}

std::vector<double> from_storage(DType dtype, const std::vector<std::byte>& bytes) {
  return with_storage(dtype, [&](auto t) {
    using T = decltype(t);
    std::vector<double> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      T x;
      std::memcpy(&x, &bytes[i * sizeof(T)], sizeof(T));
      values[i] = float(x);
    }
    return values;
  });
}

ExactProduct exact_product(const GradedInputs& in) {
  std::vector<double> a(in.a.begin(), in.a.end()), b(in.b.begin(), in.b.end());
  ExactProduct exact;
  const auto multiply = [&](std::vector<double>& c) {
    c.resize(int64_t{in.M} * in.N);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, in.M, in.N, in.K, 1, a.data(), in.K,
                b.data(), in.N, 0, c.data(), in.N);
  };
  multiply(exact.want);
  for (int m = 0; m < in.M; ++m) exact.row_norm.push_back(norm(&a[int64_t{m} * in.K], in.K));
  for (int n = 0; n < in.N; ++n) exact.col_norm.push_back(norm(&b[n], in.K, in.N));
  exact.a_norm = norm(exact.row_norm.data(), in.M);
  exact.b_norm = norm(exact.col_norm.data(), in.N);
  constexpr int SAMPLES = 16;
  std::vector<double> twice(SAMPLES);
  const auto sampled = [&](int s) { return (int64_t{s} * 7919 + 1) % (int64_t{in.M} * in.N); };
  for (int s = 0; s < SAMPLES; ++s)
    twice[s] = dot2(&a[sampled(s) / in.N * in.K], &b[sampled(s) % in.N], in.K, in.N);
  for (double& x : a) x = std::abs(x);
  for (double& x : b) x = std::abs(x);
  multiply(exact.magnitude);
  for (int s = 0; s < SAMPLES; ++s)
    if (const double magnitude = exact.magnitude[sampled(s)]; magnitude > 0)
      exact.reference_error = std::max(exact.reference_error,
                                       std::abs(exact.want[sampled(s)] - twice[s]) / magnitude / U);
  const int64_t elements = int64_t{in.M} * in.N;
  exact.condition = norm(exact.magnitude.data(), elements) / norm(exact.want.data(), elements);
  return exact;
}

double unit_roundoff(DType dtype) { return std::ldexp(1, -range_of(dtype).digits); }

Errors errors_of(const std::vector<double>& got, const GradedInputs& in,
                 const ExactProduct& exact) {
  const double u_out = unit_roundoff(in.dtype), u_sums = (in.K + 2.0) * U;
  const bool narrow = u_out > U;
  const Range range = range_of(in.dtype);
  const double largest = std::ldexp(1 - u_out / 2, range.most);  // what rounds to a finite number
  // Half of the least subnormal number, of the result; the same of float for every product.
  const double underflow =
      std::ldexp(1, range.least - range.digits) + (narrow ? 0 : in.K * 0x1p-150);
  const double elements = static_cast<double>(exact.want.size());
  Errors e;
  double squares = 0, share_squares = 0, allowed_squares = 0, want_squares = 0;
  for (int64_t i = 0; i < int64_t{in.M} * in.N; ++i) {
    const double want = exact.want[i], magnitude = exact.magnitude[i];
    if (!std::isfinite(got[i])) {
      e.non_finite += std::abs(want) < largest;
      continue;
    }
    const double error = std::abs(got[i] - want);
    const double rounding = narrow ? u_out * std::abs(want) : 0, free = rounding + underflow;
    const double norms = exact.row_norm[i / in.N] * exact.col_norm[i % in.N];
    const double share = magnitude > 0 ? error / magnitude : error > 0 ? INFINITY : 0;
    e.max = std::max(e.max, share / u_out);
    e.sum_max = std::max(e.sum_max, std::max(0.0, error - rounding) / magnitude / U);
    e.A = std::max(e.A, error / (u_sums * magnitude + free));
    e.B = std::max(e.B, error / (u_sums * norms + free));
    if (magnitude > 0) {
      e.drift += (got[i] - want) / magnitude / elements / u_out;
      e.shrink += (std::abs(got[i]) - std::abs(want)) / magnitude / elements / u_out;
    }
    share_squares += share * share, squares += error * error;
    allowed_squares += free * free, want_squares += want * want;
  }
  const double norms = exact.a_norm * exact.b_norm;
  e.rms = std::sqrt(share_squares / elements) / u_out;
  e.normwise = std::sqrt(squares) / norms / u_out;
  e.of_result = std::sqrt(squares / want_squares) / u_out;
  e.C = std::sqrt(squares) / (u_sums * norms + std::sqrt(allowed_squares));
  if (e.non_finite > 0) e.A = e.B = e.C = INFINITY;
  return e;
}

}  // namespace gemm
