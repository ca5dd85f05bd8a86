// The harness's own rules: inputs, references, checks, and what the command line makes of its
// arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "harness/cli.h"
#include "harness/host_matrix.h"
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
      const auto at = [&](Operand o, int row, int col) {
        return double{random_value(matrix_seed(9, static_cast<int>(o)),
                                   row * layout(p, o).cols + col, Inputs::uniform)};
      };
      for (int m = 0; m < p.M; ++m)
        for (int n = 0; n < p.N; ++n) {
          double sum = 0, magnitude = 0;
          for (int k = 0; k < p.K; ++k) {
            const double product = (op_a == Op::N ? at(Operand::A, m, k) : at(Operand::A, k, m)) *
                                   (op_b == Op::N ? at(Operand::B, k, n) : at(Operand::B, n, k));
            sum += product, magnitude += std::abs(product);
          }
          const double c = at(Operand::C, m, n);
          EXPECT_NEAR(r.want[m * p.N + n], 0.5 * sum - 2 * c, 1e-12);
          EXPECT_NEAR(r.magnitude[m * p.N + n], 0.5 * magnitude + 2 * std::abs(c), 1e-12);
        }
    }
}

TEST(Inputs, AreInRangeAndVaried) {
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float x = random_value(1, i, Inputs::uniform), n = random_value(1, i, Inputs::integers);
    ASSERT_TRUE(x >= -1 && x < 1);
    ASSERT_TRUE(n >= -3 && n <= 3 && n == std::round(n));
    sum += x;
  }
  EXPECT_LT(std::abs(sum / 10000), 0.02);
  EXPECT_NE(random_value(1, 5, Inputs::uniform), random_value(2, 5, Inputs::uniform));
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
  CheckResult check(bool exact = true) { return check_host(c.data(), p, reference, exact); }
};

TEST(Check, AcceptsTheRightResult) { EXPECT_TRUE(Filled().check().ok()); }
TEST(Check, NanIsWrong) {
  for (const bool exact : {true, false}) {
    Filled f;
    f.at(2, 3) = NAN;
    const CheckResult r = f.check(exact);
    EXPECT_EQ(r.wrong, 1u);
    EXPECT_EQ(r.row, 2);
    EXPECT_EQ(r.col, 3);
  }
}
TEST(Check, OneUnitInTheLastPlaceIsWrongForIntegers) {
  Filled f;
  f.at(4, 6) = std::nextafter(f.at(4, 6), 1e9f);
  EXPECT_EQ(f.check(true).wrong, 1u);
}
TEST(Check, TheBoundIsTightEnoughToSeeAMissingProduct) {
  Problem p;
  p.M = p.N = 8, p.K = 4096;
  const HostReference r = cpu_reference(p, Inputs::uniform, 1);
  for (size_t i = 0; i < r.want.size(); ++i)
    EXPECT_LT(allowed_error(p, r.want[i], r.magnitude[i]), 0.3);
  p.dtype = DType::f16, p.K = 512;
  EXPECT_LT(allowed_error(p, 1, 128), 0.02);
}
TEST(Check, AllowsProductsNoMoreThanTheRungSays) {
  Problem p;
  p.K = 1;
  const double strict = allowed_error(p, 1, 1);
  p.product_error = 0x1p-20;
  EXPECT_EQ(allowed_error(p, 1, 1), strict + 0x1p-20);
}
TEST(Check, TellsTheLargestError) {
  Filled f;
  EXPECT_EQ(f.check().max_error, 0);
  const double magnitude = f.reference.magnitude[1 * f.p.N + 2];
  f.at(1, 2) += 0.5f, f.at(3, 3) -= 0.25f;
  EXPECT_EQ(f.check(false).max_error, 0.5);
  EXPECT_GE(f.check(false).max_error_roundings, 0.5 / magnitude * (1 << 24));
  f.at(0, 0) = NAN;
  EXPECT_EQ(f.check(false).max_error, INFINITY);
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
  EXPECT_GE(allowed_error(p, 1, 0), 0x1p-8);
  EXPECT_LT(allowed_error(p, 1, 0), 0x1.1p-8);
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

TEST(Registry, IdsComeFromFileNames) {
  for (const Rung* r : rungs(Backend::sim)) {
    EXPECT_EQ(r->file, "kernels/" + r->name + ".cu");
    EXPECT_EQ(find_rung(Backend::sim, r->name, r->dtype), r);
    EXPECT_TRUE(r->prev.empty() || find_rung(Backend::sim, r->prev, DType::f16) != nullptr ||
                find_rung(Backend::sim, r->prev, DType::f32) != nullptr)
        << r->name;
  }
}

}  // namespace
}  // namespace gemm
