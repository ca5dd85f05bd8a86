// Rungs that keep numbers in narrower parts, where the other tests' inputs do not go: large and
// small numbers, zeros, infinities and NaN. In the simulator.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "print.h"
#include "registry.h"

namespace gemm {
namespace {

constexpr int M = 70, N = 90, K = 100;

class SplitTest : public testing::TestWithParam<Rung> {
 protected:
  SplitTest() : a(M * K), b(K * N) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (float& x : a) x = uniform(random);
    for (float& x : b) x = uniform(random);
  }
  std::vector<float> multiply() const {
    std::vector<float> c(M * N, NAN);
    GemmCall call;
    call.M = M, call.N = N, call.K = K;
    call.A = a.data(), call.lda = K, call.B = b.data(), call.ldb = N;
    call.C = c.data(), call.ldc = N;
    GetParam().launch(call);
    return c;
  }
  // a's rows and b's columns by powers of two.
  void scale(int row_exponent(int), int column_exponent(int)) {
    for (int m = 0; m < M; ++m)
      for (int k = 0; k < K; ++k) a[m * K + k] = std::ldexp(a[m * K + k], row_exponent(m));
    for (int k = 0; k < K; ++k)
      for (int n = 0; n < N; ++n) b[k * N + n] = std::ldexp(b[k * N + n], column_exponent(n));
  }
  // |error| <= relative * sum |a b| + absolute * K * max |a's row| * max |b's column|.
  void expect_within(double relative, double absolute) {
    const std::vector<float> c = multiply();
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) {
        double want = 0, sum = 0, max_a = 0, max_b = 0;
        for (int k = 0; k < K; ++k) {
          const double x = a[m * K + k], y = b[k * N + n];
          want += x * y, sum += std::abs(x * y);
          max_a = std::max(max_a, std::abs(x)), max_b = std::max(max_b, std::abs(y));
        }
        const double bound = relative * sum + absolute * K * max_a * max_b;
        ASSERT_LE(std::abs(c[m * N + n] - want), bound) << "C[" << m << "][" << n << "]";
      }
  }
  // What this rung may be wrong by, of sums of K products: its products', and a few roundings.
  static double allowed() { return GetParam().product_error + 0x1p-21; }
  // Whether it keeps all of a float: what others lose of numbers far below their row's largest.
  static bool whole() { return GetParam().product_error < 0x1p-23; }
  std::vector<float> a, b;
};

// A matrix of single products: what a rung registers as their error is enough, and no more than
// four times the largest.
TEST_P(SplitTest, ProductsAreAsWrongAsRegistered) {
  for (int m = 0; m < M; ++m)
    for (int k = 1; k < K; ++k) a[m * K + k] = 0;
  const std::vector<float> c = multiply();
  double worst = 0;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      const double want = double(a[m * K]) * b[n];
      worst = std::max(worst, std::abs(c[m * N + n] - want) / std::abs(want));
    }
  EXPECT_LE(worst, GetParam().product_error + 0x1p-24);
  EXPECT_GE(4 * worst, GetParam().product_error);
}

// v14 cuts both parts: a product is never too large (but for a rounding, 2^-24).
TEST_P(SplitTest, CutProductsErrTowardsZero) {
  if (GetParam().id != "v14") GTEST_SKIP() << "rounds its parts to nearest";
  for (int m = 0; m < M; ++m)
    for (int k = 1; k < K; ++k) a[m * K + k] = 0;
  const std::vector<float> c = multiply();
  int smaller = 0;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      const double want = double(a[m * K]) * b[n], got = c[m * N + n];
      ASSERT_LE(std::abs(got), std::abs(want) * (1 + 0x1p-24));
      smaller += std::abs(got) < std::abs(want) * (1 - 0x1p-24);
    }
  EXPECT_GT(smaller, M * N / 2);
}

// Columns of A by 2^-60 to 2^60 and rows of B inversely: every product counts alike.
TEST_P(SplitTest, BalancedAlongK) {
  if (GetParam().id == "v14w") GTEST_SKIP() << "one exponent a row: its chapter says what is lost";
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K; ++k) a[m * K + k] = std::ldexp(a[m * K + k], k * 37 % 121 - 60);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) b[k * N + n] = std::ldexp(b[k * N + n], 60 - k * 37 % 121);
  expect_within(allowed(), 0);
}

TEST_P(SplitTest, SubnormalTimesLarge) {
  if (GetParam().id == "v14") GTEST_SKIP() << "TF32 ends at 2^-136: its chapter says what is lost";
  scale([](int) { return -128; }, [](int) { return 110; });
  expect_within(allowed(), 0);
}

// The largest number of a row is the largest float, and sums stay finite.
TEST_P(SplitTest, LargestFloats) {
  for (int m = 0; m < M; ++m) a[m * K + m % K] = std::numeric_limits<float>::max();
  for (float& x : b) x = std::ldexp(x, -8);
  expect_within(allowed(), 0x1p-47);
}

TEST_P(SplitTest, PowersOfTwoPassThroughExactly) {
  const std::vector<float> before = multiply();
  const auto rows = [](int m) { return m * 37 % 101 - 50; };
  const auto columns = [](int n) { return n * 53 % 101 - 50; };
  scale(rows, columns);
  const std::vector<float> after = multiply();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n)
      ASSERT_EQ(after[m * N + n], std::ldexp(before[m * N + n], rows(m) + columns(n)))
          << "C[" << m << "][" << n << "]";
}

TEST_P(SplitTest, HugeTimesTiny) {  // 2^100 is 1e30
  scale([](int) { return 100; }, [](int) { return -100; });
  expect_within(allowed(), 0);
  scale([](int) { return -200; }, [](int) { return 200; });
  expect_within(allowed(), 0);
}

TEST_P(SplitTest, SmallBesideLarge) {
  for (int i = 0; i < M * K; ++i) a[i] = std::ldexp(a[i], -(i * 7 % 41));
  for (int i = 0; i < K * N; ++i) b[i] = std::ldexp(b[i], -(i * 11 % 41));
  expect_within(allowed(), whole() ? 0 : 0x1p-47);
}

// Columns of A that are large where rows of B are small: every product counts alike.
TEST_P(SplitTest, UnevenAlongK) {
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K; ++k) a[m * K + k] = std::ldexp(a[m * K + k], k * 7 % 27 - 13);
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) b[k * N + n] = std::ldexp(b[k * N + n], 13 - k * 7 % 27);
  expect_within(allowed(), 0);
}

TEST_P(SplitTest, ZeroRowsAndColumnsGiveZeros) {
  for (int k = 0; k < K; ++k) a[3 * K + k] = 0, b[k * N + 5] = -0.0f;
  const std::vector<float> c = multiply();
  for (int n = 0; n < N; ++n) EXPECT_EQ(c[3 * N + n], 0);
  for (int m = 0; m < M; ++m) EXPECT_EQ(c[m * N + 5], 0);
  expect_within(allowed(), 0);
}

TEST_P(SplitTest, InfinityAndNanStayInTheirRowAndColumn) {
  const std::vector<float> clean = multiply();
  a[3 * K + 9] = INFINITY, b[8 * N + 5] = NAN, b[7 * N + 6] = -INFINITY;
  const std::vector<float> c = multiply();
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n)
      if (m == 3 || n == 5 || n == 6)
        EXPECT_FALSE(std::isfinite(c[m * N + n])) << "C[" << m << "][" << n << "]";
      else
        EXPECT_EQ(c[m * N + n], clean[m * N + n]) << "C[" << m << "][" << n << "]";
}

std::vector<Rung> splitting() {
  std::vector<Rung> found;
  for (const Rung* r : rungs(Backend::sim))
    if (r->product_error > 0) found.push_back(*r);
  return found;
}
INSTANTIATE_TEST_SUITE_P(Sim, SplitTest, testing::ValuesIn(splitting()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gemm
