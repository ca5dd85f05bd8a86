// The harness's own rules: inputs, references, checks, and what the command line makes of its
// arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/cli.h"
#include "harness/host_matrix.h"
#include "harness/samples.h"
#include "harness/verify.h"

namespace gemm {
namespace {

Problem small(DType dtype = DType::f32) {
  Problem p;
  p.dtype = dtype;
  p.M = 5, p.N = 7, p.K = 11;
  p.ld_pad = 3;
  return p;
}

TEST(Reference, MatchesTheTripleLoop) {
  for (const Op op_a : {Op::N, Op::T})
    for (const Op op_b : {Op::N, Op::T}) {
      Problem p = small();
      p.op_a = op_a, p.op_b = op_b, p.alpha = 0.5f, p.beta = -2;
      const HostReference r = cpu_reference(p, Inputs::uniform, 9);
      const Generator g(p, Inputs::uniform, 9);
      for (int m = 0; m < p.M; ++m)
        for (int n = 0; n < p.N; ++n) {
          double sum = 0;
          for (int k = 0; k < p.K; ++k) {
            const double a =
                op_a == Op::N ? g.stored(Operand::A, m, k) : g.stored(Operand::A, k, m);
            const double b =
                op_b == Op::N ? g.stored(Operand::B, k, n) : g.stored(Operand::B, n, k);
            sum += a * b;
          }
          EXPECT_NEAR(r.want[m * p.N + n], 0.5 * sum - 2 * g.stored(Operand::C, m, n), 1e-12);
        }
    }
}

TEST(Epilogue, ActivationsAreWhatTheirNamesSay) {
  const auto at = [](Activation activation, double x) {
    Problem p = small();
    p.activation = activation;
    return wanted(p, x);
  };
  for (const double x : {-3.0, -0.5, 0.0, 0.25, 4.0}) {
    EXPECT_EQ(at(Activation::none, x), x);
    EXPECT_EQ(at(Activation::relu, x), x > 0 ? x : 0);
    EXPECT_NEAR(at(Activation::leaky_relu, x), x > 0 ? x : 0.01 * x, 1e-9);
    EXPECT_NEAR(at(Activation::silu, x), x / (1 + std::exp(-x)), 1e-15);
    EXPECT_NEAR(at(Activation::gelu_erf, x), 0.5 * x * std::erfc(-x / std::sqrt(2)), 1e-15);
    const double inner = 0.7978845608 * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(at(Activation::gelu, x), 0.5 * x * (1 + std::tanh(inner)), 1e-6);
  }
  EXPECT_TRUE(std::isnan(at(Activation::relu, NAN)));
}

// In float each is as exact as its row says: of gelu_erf the kernels compute a series.
TEST(Epilogue, ActivationsAreExactInFloat) {
  for (const Activation activation : ALL_ACTIVATIONS)
    for (double x = -20; x < 20; x += 1.0 / 64) {
      const FusedEpilogue e{.activation = activation};
      float in_float[1] = {float(x)};
      double in_double[1] = {x};
      e.activate(in_float);
      e.activate(in_double);
      ASSERT_LE(std::abs(in_float[0] - in_double[0]),
                info(activation).roundings * FLOAT_ROUNDOFF * std::abs(x))
          << info(activation).name << " at " << x;
    }
}

// Scales, biases and a residual, against the definition.
TEST(Epilogue, OperandsAreWhatTheirNamesSay) {
  Problem p = small();
  p.alpha = 0.5f, p.beta = -2;
  const HostReference product = cpu_reference(
      [&] {
        Problem plain = p;
        plain.beta = 0;
        return plain;
      }(),
      Inputs::uniform, 9);
  p.operands = {true, true, true, true, true};
  const HostReference r = cpu_reference(p, Inputs::uniform, 9);
  const Generator g(p, Inputs::uniform, 9);
  for (int m = 0; m < p.M; ++m)
    for (int n = 0; n < p.N; ++n)
      EXPECT_NEAR(r.want[m * p.N + n],
                  g.stored(Operand::scale_rows, 0, m) * g.stored(Operand::scale_columns, 0, n) *
                          product.want[m * p.N + n] -
                      2 * g.stored(Operand::residual, m, n) + g.stored(Operand::bias, 0, n) +
                      g.stored(Operand::row_bias, 0, m),
                  1e-6);
  EXPECT_GT(layout(p, Operand::residual).ld, layout(p, Operand::C).ld);
  EXPECT_EQ(layout(p, Operand::bias).cols, p.N);
  EXPECT_EQ(layout(p, Operand::scale_rows).cols, p.M);
  p.activation = Activation::gelu;
  EXPECT_EQ(epilogue_name(p), "residual,bias,row_bias,scale_rows,scale_columns,gelu");
}

// No activation is steeper than its row says, and what is exact stays bit for bit.
TEST(Epilogue, BoundsGrowWithTheSlope) {
  for (const Activation activation : ALL_ACTIVATIONS) {
    Problem p = small();
    p.activation = activation;
    for (double x = -12; x < 12; x += 1e-3)
      ASSERT_LE(std::abs(wanted(p, x + 1e-3) - wanted(p, x)), 1.0000001e-3 * info(activation).slope)
          << info(activation).name << " at " << x;
    EXPECT_EQ(allowed_after_activation(p, Inputs::sums, 3) == 0, info(activation).roundings == 0);
  }
}

// C's type is its own: as wide as the table says, and rounded to that.
TEST(Types, OfTheResultApart) {
  Problem p = small(DType::f16_f32);
  EXPECT_EQ(element_size(p, Operand::A), 2u);
  EXPECT_EQ(element_size(p, Operand::C), 4u);
  EXPECT_EQ(layout(p, Operand::C).bytes % 4, 0u);
  EXPECT_EQ(round_to(p.dtype, 2049), 2049);
  EXPECT_EQ(round_to(p.dtype, 2049, Operand::A), 2048);
  // A result that was rounded to half on the way is found.
  EXPECT_LT(allowed_error(p, Inputs::uniform, 1), 1.0 / (1 << 12));
}

// Scales of blocks lie as cuBLASLt's do: A's along m, B's along k in whole fours.
TEST(Types, BlockScales) {
  Problem p = small(DType::e4m3_block);
  p.N = 129, p.K = 257, p.ld_pad = 0;
  EXPECT_TRUE(has(p, Operand::scales_a));
  EXPECT_FALSE(has(small(DType::e4m3), Operand::scales_a));
  const MatrixLayout a = layout(p, Operand::scales_a), b = layout(p, Operand::scales_b);
  EXPECT_EQ(a.rows, 3);
  EXPECT_EQ(a.cols, p.M);
  EXPECT_EQ(a.ld, p.M);
  EXPECT_EQ(b.rows, 2);
  EXPECT_EQ(b.cols, 3);
  EXPECT_EQ(b.ld, 4);
  for (const Op op : {Op::N, Op::T}) {
    p.op_a = p.op_b = op;
    const Generator g(p, Inputs::uniform, 1);
    for (const auto& [m, k, n] : {std::tuple{0, 0, 0}, {p.M - 1, 256, 128}, {3, 127, 127}}) {
      const bool t = op == Op::T;
      EXPECT_EQ(g.block_scale(Operand::A, t ? k : m, t ? m : k),
                g.stored(Operand::scales_a, k / 128, m));
      EXPECT_EQ(g.block_scale(Operand::B, t ? n : k, t ? k : n),
                g.stored(Operand::scales_b, n / 128, k / 128));
    }
    EXPECT_NE(g.stored(Operand::scales_a, 0, 1), g.stored(Operand::scales_a, 1, 1));
    EXPECT_NE(g.stored(Operand::scales_b, 0, 0), g.stored(Operand::scales_b, 1, 0));
  }
}

// A batch is one matrix after the other, with a gap between them; what all share lies there once.
TEST(Batch, Layout) {
  Problem p = small();
  p.batch = 3, p.batch_pad = 5, p.ld_pad = 2, p.shared_a = true;
  const MatrixLayout a = layout(p, Operand::A), b = layout(p, Operand::B);
  EXPECT_EQ(a.products, 1);
  EXPECT_EQ(b.products, 3);
  EXPECT_EQ(b.stride, b.rows * b.ld + 5);
  int64_t elements = 0;
  for (int64_t i = 0; i < b.elements; ++i)
    if (const int64_t element = b.element(i); element >= 0) {
      EXPECT_EQ(element, elements++);
      EXPECT_EQ(b.index(element / b.cols, element % b.cols), i);
    }
  EXPECT_EQ(elements, 3 * b.rows * b.cols);
  const GemmCall call = make_call(p, nullptr, nullptr, nullptr);
  EXPECT_EQ(call.batch.count, 3);
  EXPECT_EQ(call.batch.stride_a, 0);
  EXPECT_EQ(call.batch.stride_b, b.stride);
}

// Vectors of the epilogue are one for all products.
TEST(Batch, SharesVectors) {
  Problem p = small();
  p.batch = 3, p.operands = {false, true, true, true, true};
  Problem plain = p;
  plain.operands = {};
  const HostReference r = cpu_reference(p, Inputs::uniform, 9),
                      products = cpu_reference(plain, Inputs::uniform, 9);
  const Generator g(p, Inputs::uniform, 9);
  EXPECT_EQ(layout(p, Operand::bias).products, 1);
  for (int64_t row = 0; row < int64_t{3} * p.M; ++row)
    for (int64_t n = 0; n < p.N; ++n) {
      const int64_t m = row % p.M;
      EXPECT_NEAR(r.want[row * p.N + n],
                  g.stored(Operand::scale_rows, 0, m) * g.stored(Operand::scale_columns, 0, n) *
                          products.want[row * p.N + n] +
                      g.stored(Operand::bias, 0, n) + g.stored(Operand::row_bias, 0, m),
                  1e-6);
      EXPECT_EQ(r.scale(row, n), r.scale(m, n));
      EXPECT_EQ(g.scale(row, n), g.scale(m, n));
    }
}

// Products differ, but for what they share; the first is that of a call without a batch.
TEST(Batch, ProductsDiffer) {
  Problem p = small();
  p.batch = 3;
  Problem one = p, shared = p;
  one.batch = 1;
  shared.shared_b = true;
  for (const Inputs kind : {Inputs::sums, Inputs::products, Inputs::uniform}) {
    const Generator all(p, kind, 1), first(one, kind, 1), b_shared(shared, kind, 1);
    int same = 0;  // of A in products 0 and 1
    for (int64_t m = 0; m < p.M; ++m)
      for (int64_t n = 0; n < p.N; ++n) {
        EXPECT_EQ(all.stored(Operand::C, m, n), first.stored(Operand::C, m, n));
        same += all.stored(Operand::A, m, n % p.K) == all.stored(Operand::A, p.M + m, n % p.K);
      }
    EXPECT_LT(same, p.M * p.N / 2);
    EXPECT_EQ(known_result(one, Inputs::sums, 1).want[0], known_result(p, Inputs::sums, 1).want[0]);
    EXPECT_EQ(b_shared.stored(Operand::B, 1, 2), first.stored(Operand::B, 1, 2));
  }
}

Problem in_groups(DType dtype = DType::f32) {
  Problem p = small(dtype);
  p.groups = {.count = 5, .ends = {0, 2, 2, 3, p.M}};
  return p;
}

// A and C of groups are one matrix each, and B is a batch.
TEST(Groups, Layout) {
  Problem p = in_groups();
  p.batch_pad = 5;
  EXPECT_EQ(layout(p, Operand::A).products, 1);
  EXPECT_EQ(layout(p, Operand::C).products, 1);
  EXPECT_EQ(layout(p, Operand::C).rows, p.M);
  const MatrixLayout b = layout(p, Operand::B);
  EXPECT_EQ(b.products, 5);
  const GemmCall call = make_call(p, nullptr, nullptr, nullptr);
  EXPECT_EQ(call.batch.count, 5);
  EXPECT_EQ(call.batch.stride_b, b.stride);
  EXPECT_EQ(call.batch.stride_a, 0);
  EXPECT_FALSE(call.batch.is_single());
  EXPECT_EQ(batch_name(p), "groups:5");
  EXPECT_EQ(flops(p), 2.0 * p.M * p.N * p.K);
}

// Matrices without elements, one after the other, are nowhere.
TEST(Groups, LayoutOfNothing) {
  Problem p = in_groups();
  p.N = 0;
  const MatrixLayout b = layout(p, Operand::B);
  for (int64_t i = 0; i < b.elements; ++i) EXPECT_EQ(b.element(i), -1);
}

TEST(Groups, RowsBelongToTheGroupThatHoldsThem) {
  const Problem p = in_groups();
  for (int group = 0; group < p.groups.count; ++group)
    for (int row = p.groups.first(group); row < p.groups.ends[group]; ++row) {
      EXPECT_EQ(p.groups.of_row(row), group);
      EXPECT_EQ(product_of_row(p, row), group);
    }
}

// Each group is a product of its own rows with its own B.
TEST(Groups, ReferenceIsThatOfEachGroupsProduct) {
  for (const Op op : {Op::N, Op::T}) {
    Problem p = in_groups();
    p.op_a = p.op_b = op;
    const Generator g(p, Inputs::uniform, 5);
    const HostReference r = cpu_reference(p, Inputs::uniform, 5);
    for (int m = 0; m < p.M; ++m)
      for (int n = 0; n < p.N; ++n) {
        const int64_t rows = layout(p, Operand::B).rows, before = rows * p.groups.of_row(m);
        double sum = 0;
        for (int k = 0; k < p.K; ++k)
          sum += double{op == Op::N ? g.stored(Operand::A, m, k) : g.stored(Operand::A, k, m)} *
                 double{op == Op::N ? g.stored(Operand::B, before + k, n)
                                    : g.stored(Operand::B, before + n, k)};
        EXPECT_NEAR(r.want[m * p.N + n], sum, 1e-12);
      }
  }
}

// What `sums` and `products` must give, without a multiplication, is what double precision gives.
TEST(Reference, KnownResultsAreThoseOfBlas) {
  for (const DType dtype : ALL_DTYPES)
    for (const Inputs kind : {Inputs::sums, Inputs::products})
      for (const int k : {0, 1, 2, 7, 64, 1000, 4097})
        for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {-0.5f, 1.0f}, {2.75f, -8.0f}})
          for (const Op op : {Op::N, Op::T}) {
            Problem p = small(dtype);
            p.K = k, p.alpha = alpha, p.beta = beta, p.op_a = p.op_b = op;
            EXPECT_EQ(known_result(p, kind, 3).want, cpu_reference(p, kind, 3).want)
                << to_string(dtype) << " K " << k << " alpha " << alpha;
            if (k > 64) continue;
            p.batch = 3, p.shared_a = k % 2 == 0, p.shared_b = k == 7;
            EXPECT_EQ(known_result(p, kind, 3).want, cpu_reference(p, kind, 3).want)
                << to_string(dtype) << " K " << k << " alpha " << alpha << " in a batch";
            p.operands = {false, true, true, true, true};
            EXPECT_EQ(known_result(p, kind, 3).want, cpu_reference(p, kind, 3).want)
                << to_string(dtype) << " K " << k << " alpha " << alpha << " with vectors";
            p = in_groups(dtype);
            p.K = k, p.alpha = alpha, p.beta = beta, p.op_a = p.op_b = op;
            EXPECT_EQ(known_result(p, kind, 3).want, cpu_reference(p, kind, 3).want)
                << to_string(dtype) << " K " << k << " alpha " << alpha << " in groups";
          }
}

// The sum of all |products| stays below 2^24 (in quarters, where the scalars are), so that no order
// of adding rounds; and at two thirds of K it needs more bits than any narrower accumulator has. Fast sums of
// FP8, and promoted ones within a promotion, stay below 2^14.
TEST(Inputs, SumsFillTheAccumulatorAndAreExact) {
  for (const DType dtype : ALL_DTYPES)
    for (const int K : {2, 64, 256, 4096, 65536, 3000000})
      for (const float alpha : {1.0f, 7.75f}) {
        Problem p;
        p.dtype = dtype, p.M = 3, p.N = K > 65536 ? 1 : 3, p.K = K, p.alpha = alpha,
        p.beta = alpha == 1 ? 0 : 8;
        const Generator g(p, Inputs::sums, 5);
        const Accumulation accumulation = info(dtype).accumulation;
        for (int n = 0; n < p.N; ++n) {
          double magnitude = 0, half_way = 0, promoted = 0;
          for (int k = 0; k < K; ++k) {
            const double b = g.stored(Operand::B, k, n), product = g.stored(Operand::A, 1, k) * b;
            ASSERT_EQ(b, round_to(dtype, b, Operand::B));
            magnitude += std::abs(product);
            promoted = (k % PROMOTED_K == 0 ? 0 : promoted) + std::abs(product);
            if (accumulation == Accumulation::promoted || accumulation == Accumulation::scaled) {
              ASSERT_LE(promoted, 1 << FAST_SUM_BITS);
            }
            if (k < K - K / 3) half_way += product;
          }
          EXPECT_LE((alpha == 1 ? 1 : 4) * (std::abs(alpha) * magnitude + 3 * p.beta),
                    1 << (accumulation == Accumulation::fast ? FAST_SUM_BITS : 24));
          // bf16's eight bits, and FP8's four and three, fill less of it where K is short
          if (alpha == 1 && K >= 64) {
            EXPECT_GE(half_way, accumulation != Accumulation::full ? 0x1p8
                                : info(dtype).bits == 8            ? 0x1p15
                                                                   : 0x1p18);
          }
        }
      }
}

TEST(Inputs, ProductsUseAllBits) {
  for (const DType dtype : ALL_DTYPES) {
    Problem p = small(dtype);
    const Generator g(p, Inputs::products, 5);
    for (int i = 0; i < p.M; ++i)
      for (int k = 0; k < p.K; ++k) {
        int exponent;
        const double significand = std::frexp(double{g.stored(Operand::A, i, k)}, &exponent);
        const double integer = std::ldexp(significand, info(dtype).bits);
        EXPECT_EQ(integer, std::round(integer));
        const bool power = info(dtype).has_block_scales() && std::abs(significand) == 0.5;
        EXPECT_TRUE(std::fmod(std::abs(integer), 2) == 1 || power) << "the last bit is used";
      }
    for (int n = 0; n < p.N; ++n) {
      int products = 0;
      for (int k = 0; k < p.K; ++k) products += g.stored(Operand::B, k, n) != 0;
      EXPECT_LE(products, 1);
    }
  }
}

// With a wide range, what products must give is what IEEE says of every sum, infinities and NaN too;
// and every input is a number of its type.
TEST(Inputs, WideRangeIsWhatIeeeSays) {
  for (const DType dtype : ALL_DTYPES) {
    Problem p;
    p.dtype = dtype, p.M = 40, p.N = 36, p.K = 13, p.alpha = -0.5f, p.beta = 2, p.wide_range = true;
    const Generator g(p, Inputs::products, 5);
    const std::vector<double> want = known_result(p, Inputs::products, 5).want;
    int nan = 0, infinite = 0, large = 0, subnormal = 0;
    const auto stored = [&](Operand operand, int row, int col) {
      const double x = g.stored(operand, row, col),
                   scale = operand == Operand::C ? 1 : g.block_scale(operand, row, col);
      const double rounded = round_to(dtype, x, operand);
      EXPECT_TRUE(x == rounded || (x != x && rounded != rounded)) << to_string(dtype) << " " << x;
      return x * scale;
    };
    for (int m = 0; m < p.M; ++m)
      for (int n = 0; n < p.N; ++n) {
        double sum = 0;
        for (int k = 0; k < p.K; ++k) {
          const double a = stored(Operand::A, m, k);
          sum += a * stored(Operand::B, k, n);
          large += std::abs(a) >= 16;
          subnormal += a != 0 && std::abs(a) <= std::ldexp(1, exponents(info(dtype).in).least +
                                                                  info(info(dtype).in).bits - 1);
        }
        sum = p.alpha * sum + p.beta * stored(Operand::C, m, n);
        const double got = want[m * p.N + n];
        EXPECT_TRUE(got == sum || (got != got && sum != sum))
            << to_string(dtype) << " " << m << " " << n << ": " << got << ", not " << sum;
        nan += got != got;
        infinite += std::isinf(got);
      }
    EXPECT_GT(nan, p.M);
    EXPECT_GT(infinite, 0);
    EXPECT_GT(large, 0);
    EXPECT_EQ(subnormal > 0, dtype != DType::tf32) << to_string(dtype);
  }
}

// Zeros are +0 where IEEE says so; a NaN is right where one must be, and nowhere else.
TEST(Check, ZerosHaveASignAndNanAPlace) {
  const Problem p = small();
  EXPECT_TRUE(is_right(p, Inputs::sums, {0, 0}, 0.0, 0.0));
  EXPECT_FALSE(is_right(p, Inputs::sums, {0, 0}, -0.0, 0.0));
  Problem negative = p;
  negative.alpha = -1;
  EXPECT_TRUE(is_right(negative, Inputs::sums, {0, 0}, -0.0, 0.0));
  EXPECT_TRUE(is_right(p, Inputs::products, {NAN, NAN}, NAN, NAN));
  EXPECT_FALSE(is_right(p, Inputs::products, {NAN, NAN}, 1, NAN));
  EXPECT_FALSE(is_right(p, Inputs::uniform, {NAN, NAN}, NAN, NAN));
  EXPECT_FALSE(is_right(p, Inputs::products, {INFINITY, INFINITY}, 1, INFINITY));
}

// One operand's layout alone is off, and calls follow it.
TEST(Layouts, OneIsOff) {
  Problem p = small();
  p.batch = 2;
  const Problem before = p;
  p.apart = Problem::Apart::stride, p.apart_of = Operand::B;
  EXPECT_EQ(layout(p, Operand::B).stride, layout(before, Operand::B).stride + 1);
  EXPECT_EQ(layout(p, Operand::A).stride, layout(before, Operand::A).stride);
  EXPECT_EQ(make_call(p, nullptr, nullptr, nullptr).batch.stride_b, layout(p, Operand::B).stride);
}

TEST(Inputs, AreInRangeAndVaried) {
  Problem p = small();
  p.M = p.K = 100;
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float x = random_value(1, i);
    const float n = Generator(p, Inputs::integers, 1).stored(Operand::A, i / 100, i % 100);
    ASSERT_TRUE(x >= -1 && x < 1);
    ASSERT_TRUE(n >= -3 && n <= 3 && n == std::round(n));
    sum += x;
  }
  EXPECT_LT(std::abs(sum / 10000), 0.02);
  EXPECT_NE(random_value(1, 5), random_value(2, 5));
}

// A correct C on the host, to be spoiled.
struct Filled {
  Problem p = small();
  HostReference reference = cpu_reference(p, Inputs::integers, 4);
  std::vector<float> c = std::vector<float>(layout(p, Operand::C).elements);
  Filled() {
    fill_host(c.data(), p, Operand::C, Inputs::integers, 4);
    for (int m = 0; m < p.M; ++m)
      for (int n = 0; n < p.N; ++n) at(m, n) = static_cast<float>(reference.want[m * p.N + n]);
  }
  float& at(int m, int n) {
    return c[layout(p, Operand::C).first + m * layout(p, Operand::C).ld + n];
  }
  CheckResult check(Inputs kind = Inputs::integers) {
    return check_host(c.data(), p, kind, reference);
  }
};

TEST(Check, AcceptsTheRightResult) { EXPECT_TRUE(Filled().check().ok()); }
TEST(Check, NanIsWrong) {
  for (const Inputs kind : {Inputs::integers, Inputs::products, Inputs::uniform}) {
    Filled f;
    f.at(2, 3) = NAN;
    const CheckResult r = f.check(kind);
    EXPECT_EQ(r.wrong, 1u);
    EXPECT_EQ(r.row, 2);
    EXPECT_EQ(r.col, 3);
  }
}
TEST(Check, OneUnitInTheLastPlaceIsWrongForIntegers) {
  Filled f;
  f.at(4, 6) = std::nextafter(f.at(4, 6), 1e9f);
  EXPECT_EQ(f.check().wrong, 1u);
}
TEST(Check, InfinityIsRightWhereTheResultIsTooLarge) {
  Filled f;
  f.reference.want[0] = 1e39, f.reference.want[1] = -1e39;
  f.at(0, 0) = INFINITY, f.at(0, 1) = INFINITY;
  EXPECT_EQ(f.check(Inputs::uniform).wrong, 1u);
}
// Typical errors of wrong arithmetic on uniform inputs, as check.h derives them, are far outside.
TEST(Check, TheBoundIsBelowWhatNarrowerTypesLose) {
  for (const int K : {64, 256, 1024, 4096, 16384, 65536}) {
    Problem p;
    p.K = K;
    const double s = 1.0 / 3, tf32_inputs = 0.58 * 0x1p-11 * s * std::sqrt(K),
                 half_sums = 0.30 * 0x1p-11 * s * K;
    EXPECT_LT(allowed_error(p, Inputs::uniform, 0), tf32_inputs);
    p.dtype = DType::f16;
    EXPECT_LT(4 * allowed_error(p, Inputs::uniform, 0), half_sums);
    p.dtype = DType::bf16;
    EXPECT_LT(4 * allowed_error(p, Inputs::uniform, 0), half_sums);
    p.dtype = DType::tf32;  // the worst of 1000 elements: 3.3 times the typical
    EXPECT_LT(allowed_error(p, Inputs::uniform, 0), 3.3 * 8 * tf32_inputs);
    // The worst of 1000 fast sums errs by 5 times the typical; they are allowed that, as e4m3_fast.
    const double fast_sums = 0.1 * 0x1p-13 * s * K;
    p.dtype = DType::e4m3_f32;
    if (K >= 1024) {
      EXPECT_LT(allowed_error(p, Inputs::uniform, 0), 5 * fast_sums);
    }
    p.dtype = DType::e4m3_f32_fast;
    EXPECT_GT(allowed_error(p, Inputs::uniform, 0), 10 * fast_sums);
  }
}
TEST(Check, IntegersAreExactWhileTheScalarsAre) {
  Problem p;
  for (const float alpha : {1.0f, -7.75f, 0.25f}) {
    p.alpha = alpha;
    EXPECT_EQ(allowed_error(p, Inputs::integers, 5), 0);
  }
  for (const float alpha : {0.3f, 8.25f, 1e30f}) {
    p.alpha = alpha;
    EXPECT_GT(allowed_error(p, Inputs::integers, 5), 0);
    EXPECT_LT(allowed_error(p, Inputs::integers, 5), 5 * 0x1p-21);
  }
}
TEST(Check, AllowsProductsNoMoreThanTheRungSays) {
  Problem p;
  p.K = 1;
  const double strict = allowed_error(p, Inputs::uniform, 1);
  p.product_error = 0x1p-20;
  EXPECT_LT(allowed_error(p, Inputs::uniform, 1), strict + 3 * 0x1p-20);
  EXPECT_LT(allowed_error(p, Inputs::products, 1), 0x1p-20 + 0x1p-22);
  EXPECT_EQ(allowed_error(p, Inputs::sums, 1), 0);
}
TEST(Check, TellsTheLargestError) {
  Filled f;
  EXPECT_EQ(f.check().max_error, 0);
  f.at(1, 2) += 0.5f, f.at(3, 3) -= 0.25f;
  EXPECT_EQ(f.check(Inputs::uniform).max_error, 0.5);
  EXPECT_EQ(f.check(Inputs::uniform).max_error_roundings, 0.5 / (f.p.K / 4.0) * (1 << 24));
  EXPECT_EQ(f.check(Inputs::uniform).max_used,
            0.5 / allowed_error(f.p, Inputs::uniform, f.reference.want[1 * f.p.N + 2]));
  f.at(0, 0) = NAN;
  EXPECT_EQ(f.check(Inputs::uniform).max_error, INFINITY);
}
TEST(Check, SeesWritesOutside) {
  Filled f;
  f.c[layout(f.p, Operand::C).first + f.p.N] = 0;  // first element of the row gap
  f.c.back() = 1;
  EXPECT_EQ(f.check().overwritten, 2u);
  EXPECT_EQ(f.check().wrong, 0u);
  EXPECT_NE(describe(f.check()).find("outside C"), std::string::npos);
}
TEST(Check, Bf16KeepsEightBits) {
  EXPECT_EQ(round_to(DType::bf16, 257), 256);  // ties to even
  EXPECT_EQ(round_to(DType::bf16, 259), 260);
  EXPECT_EQ(round_to(DType::bf16, 1e38), round_to(DType::f32, 0x1.2cp126));  // float's range
  Problem p = small(DType::bf16);
  EXPECT_EQ(layout(p, Operand::A).bytes % 2, 0u);
  p.K = 0;
  EXPECT_GE(allowed_error(p, Inputs::uniform, 1), 0x1p-8);
  EXPECT_LT(allowed_error(p, Inputs::uniform, 1), 0x1.1p-8);
}
TEST(Check, HalfRoundsOnce) {
  EXPECT_EQ(round_to(DType::f16, 2049), 2048);
  EXPECT_EQ(round_to(DType::f16, 2051), 2052);
  EXPECT_EQ(round_to(DType::f32, 16777217), 16777216);
}

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gemm_bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Samples, TheMediansUncertaintyIsHowFarItIsOff) {
  // One in twenty of 1000 medians of n samples is further off than it says.
  for (const int n : {25, 100}) {
    int outside = 0;
    for (int trial = 0; trial < 1000; ++trial) {
      std::vector<double> samples;
      for (int i = 0; i < n; ++i) {  // nearly normal, about 1: sums of uniform numbers
        double sum = 0;
        for (int j = 0; j < 12; ++j) sum += random_value(trial, (i * 12) + j);
        samples.push_back(1 + 0.01 * sum);
      }
      const double off = std::abs(spread(samples).median - 1);
      outside += off > median_uncertainty(samples) * spread(samples).median;
    }
    EXPECT_GT(outside, 20) << n;
    EXPECT_LT(outside, 90) << n;
  }
}
TEST(Samples, OneSaysNothingAndEqualOnesAreCertain) {
  EXPECT_GT(median_uncertainty({1.0}), 1e9);
  EXPECT_EQ(median_uncertainty({2.0, 2.0, 2.0}), 0);
}

TEST(CommandLine, SizesAndShapes) {
  const Options o = parse({"--size", "512:1024:256", "--size", "3,0", "--shape", "4x5x6"});
  ASSERT_EQ(o.shapes.size(), 6u);
  EXPECT_EQ(o.shapes[1].M, 768);
  EXPECT_EQ(o.shapes[4].K, 0);
  EXPECT_EQ(o.shapes[5].N, 5);
  for (const char* bad : {"-1", "", "1:2", "2:1:1", "1:5:0", "1e3", "4 ", "99999999999", "1:2:3:4"})
    EXPECT_THROW(parse({"--size", bad}), UsageError) << bad;
  for (const char* bad : {"4x5", "4x5x6x7", "axbxc", "4x-5x6", "x"})
    EXPECT_THROW(parse({"--shape", bad}), UsageError) << bad;
}

TEST(CommandLine, RungSelection) {
  const auto ids = [](const std::string& spec, std::vector<DType> dtypes = {DType::f16}) {
    std::string text;
    for (const Rung* r : select_rungs(spec, dtypes, Backend::sim)) text += r->id + " ";
    return text;
  };
  EXPECT_EQ(ids("v8,v2"), "v2 v8 ");
  EXPECT_EQ(ids("v1-v3"), "v1 v1u v2 v3 ");
  EXPECT_EQ(ids("v08_double_buffer"), "v8 ");
  EXPECT_EQ(ids("v8,v8"), "v8 ");
  EXPECT_EQ(ids("v9-").substr(0, 7), "v9 v10 ");
  for (const char* bad : {"v99", "", "v8-v1", "naive", "v1,", "-v8", "v1-v99"})
    EXPECT_THROW(ids(bad), UsageError) << bad;
  EXPECT_THROW(ids("v8", {DType::tf32}), UsageError);
}

TEST(Needs, AreHeldAgainstTheGpuAndItsCode) {
  const Needs any, ampere{.sm = 80}, hopper{.sm = 90, .exact_arch = true};
  const CodeArch sm_75{75, false}, sm_80{80, false}, sm_90{90, false}, sm_90a{90, true};
  for (const CodeArch code : {sm_75, sm_80, sm_90, sm_90a})
    EXPECT_EQ(unmet_arch(any, 90, code), "");
  // By the GPU.
  EXPECT_EQ(unmet_arch(ampere, 75, sm_75), "needs sm_80, this GPU is sm_75");
  EXPECT_EQ(unmet_arch(hopper, 80, sm_80), "needs sm_90a, this GPU is sm_80");
  EXPECT_EQ(unmet_arch(hopper, 120, {120, true}), "needs sm_90a, this GPU is sm_120");
  EXPECT_EQ(unmet_arch(ampere, 86, sm_80), "");
  EXPECT_EQ(unmet_arch(ampere, 120, {120, true}), "");
  EXPECT_EQ(unmet_arch(hopper, 90, sm_90a), "");
  // By what was compiled: elsewhere than on its architecture a kernel is a stub that traps.
  EXPECT_EQ(unmet_arch(hopper, 90, sm_90),
            "needs sm_90a, this program was built for sm_90; "
            "-DCMAKE_CUDA_ARCHITECTURES=90a-real builds it");
  EXPECT_EQ(unmet_arch(hopper, 90, sm_80),  // by PTX
            "needs sm_90a, this program was built for sm_80; "
            "-DCMAKE_CUDA_ARCHITECTURES=90a-real builds it");
  EXPECT_EQ(unmet_arch(ampere, 89, sm_75),
            "needs sm_80, this program was built for sm_75; "
            "-DCMAKE_CUDA_ARCHITECTURES=89-real builds it");
}

TEST(Registry, IdsComeFromFileNames) {
  for (const Rung* r : rungs(Backend::sim)) {
    EXPECT_EQ(r->file, "kernels/" + r->name + ".cu");
    EXPECT_EQ(find_rung(Backend::sim, r->name, r->dtype), r);
    EXPECT_TRUE(r->prev.empty() || find_rung(Backend::sim, r->prev, DType::f16) != nullptr ||
                find_rung(Backend::sim, r->prev, DType::f32) != nullptr ||
                find_rung(Backend::sim, r->prev, DType::e4m3_fast) != nullptr ||
                find_rung(Backend::sim, r->prev, DType::e4m3) != nullptr)
        << r->name;
  }
}

}  // namespace
}  // namespace gemm
