// Inputs, exact products and grades of harness/accuracy.h.
#include "harness/accuracy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/problem.h"

namespace gemm {
namespace {

constexpr int M = 24, N = 40;
constexpr DType ALL[] = {DType::f32, DType::f16, DType::bf16};

// The right result as the type stores it.
std::vector<double> stored(DType dtype, const std::vector<double>& exact) {
  return from_storage(dtype, to_storage(dtype, {exact.begin(), exact.end()}));
}

TEST(Accuracy, RightResultsAreGradedAInEveryClass) {
  for (const DType dtype : ALL)
    for (const InputClass& c : input_classes())
      for (const int k : {1, 2, 63, 300}) {
        if (k == 1 && std::string(c.name).starts_with("cancelling")) continue;
        const GradedInputs in = make_inputs(c.name, dtype, M, N, k, 3);
        const ExactProduct exact = exact_product(in);
        const Errors e = errors_of(stored(dtype, exact.want), in, exact);
        EXPECT_EQ(e.grade(), 'A') << c.name << " " << to_string(dtype) << " K " << k;
        EXPECT_EQ(e.non_finite, 0) << c.name << " " << to_string(dtype) << " K " << k;
        if (dtype != DType::f16) {  // whose results may be subnormal
          EXPECT_LE(e.max, 1 + 1e-6) << c.name << " " << to_string(dtype) << " K " << k;
        }
        EXPECT_LE(exact.reference_error, 0x1p-10) << c.name;
      }
}

TEST(Accuracy, ClassesAreWhatTheySay) {
  const auto in = [](const char* name, DType dtype = DType::f32) {
    return make_inputs(name, dtype, M, N, 128, 3);
  };
  const auto spread = [](const std::vector<float>& x) {
    int least = 1000, most = -1000;
    for (const float v : x)
      if (v != 0) least = std::min(least, std::ilogb(v)), most = std::max(most, std::ilogb(v));
    return most - least;
  };
  for (const float x : in("positive").a) ASSERT_GE(x, 0);
  for (const float x : in("subnormal").a) ASSERT_LT(std::abs(x), 0x1p-126f);
  for (const float x : in("subnormal", DType::f16).a) ASSERT_LE(std::abs(x), 0x1p-14f);
  EXPECT_GT(spread(in("balanced").a), 110);
  EXPECT_GT(spread(in("wide_within").a), 35);
  double before = 1;
  for (const char* name : {"cancelling_1", "cancelling_2", "cancelling_3"}) {
    const double condition = exact_product(in(name)).condition;
    EXPECT_GT(condition, 10 * before) << name;
    before = condition;
  }
  const ExactProduct huge = exact_product(in("huge"));
  for (const double c : huge.want) {
    ASSERT_GT(c, 0x1p124);
    ASSERT_LE(c, 0x1p127);
  }
  EXPECT_THROW(in("nonsense"), std::invalid_argument);
}

// Results that keep one bound each and not the stricter ones.
TEST(Accuracy, EveryGradeIsGiven) {
  GradedInputs in = make_inputs("uniform", DType::f32, M, N, 2, 3);
  const auto grade = [&](auto&& change) {
    const ExactProduct exact = exact_product(in);
    std::vector<double> got = exact.want;
    change(got, exact);
    return errors_of(got, in, exact).grade();
  };
  const auto unchanged = [](std::vector<double>&, const ExactProduct&) {};
  EXPECT_EQ(grade(unchanged), 'A');
  const auto every = [](std::vector<double>& got, const ExactProduct& exact) {
    for (size_t i = 0; i < got.size(); ++i) got[i] += exact.magnitude[i] * 0x1p-20;
  };
  EXPECT_EQ(grade(every), '-');  // TF32's products, or a TF32 rung at K = 2
  // One row of C is wrong, by much of its own size and little of C's.
  for (int k = 0; k < 2; ++k) in.a[5 * 2 + k] *= 0x1p-30f;
  const auto row = [](std::vector<double>& got, const ExactProduct& exact) {
    for (int n = 0; n < N; ++n) got[5 * N + n] += exact.magnitude[5 * N + n] * 0.5;
  };
  EXPECT_EQ(grade(row), 'C');
  // A small element beside a large one in A's row, which meets a zero.
  in = make_inputs("uniform", DType::f32, M, N, 2, 3);
  for (int m = 0; m < M; ++m) in.a[m * 2] = 1, in.a[m * 2 + 1] = 0x1p-30f;
  for (int n = 0; n < N; ++n) in.b[n] = 0, in.b[N + n] = 1;
  const auto lost = [](std::vector<double>& got, const ExactProduct&) {
    std::fill(got.begin(), got.end(), 0);
  };
  EXPECT_EQ(grade(lost), 'B');
}

TEST(Accuracy, NonFiniteResultsHaveNoGrade) {
  const GradedInputs in = make_inputs("uniform", DType::f16, M, N, 8, 3);
  ExactProduct exact = exact_product(in);
  std::vector<double> got = stored(DType::f16, exact.want);
  got[3] = NAN, got[4] = INFINITY;
  Errors e = errors_of(got, in, exact);
  EXPECT_EQ(e.non_finite, 2);
  EXPECT_EQ(e.grade(), '-');
  exact.want[3] = exact.want[4] = 65520;  // rounds to infinity
  e = errors_of(got, in, exact);
  EXPECT_EQ(e.non_finite, 0);
}

TEST(Accuracy, DirectionOfErrors) {
  const GradedInputs in = make_inputs("uniform", DType::f32, M, N, 8, 3);
  const ExactProduct exact = exact_product(in);
  std::vector<double> cut = exact.want, low = exact.want;
  for (size_t i = 0; i < cut.size(); ++i)
    cut[i] *= 1 - 0x1p-20, low[i] -= exact.magnitude[i] * 0x1p-20;
  const Errors of_cut = errors_of(cut, in, exact), of_low = errors_of(low, in, exact);
  EXPECT_LT(of_cut.shrink, -1);
  EXPECT_GT(of_cut.drift, of_cut.shrink / 4);  // signs differ, and nearly cancel
  EXPECT_NEAR(of_low.drift, -16, 0.1);
}

}  // namespace
}  // namespace gemm
