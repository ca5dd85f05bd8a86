// Every planted bug must be caught by the same checks that rungs have to pass, at one ragged
// problem with beta and one without.
#include "mutants/mutants.h"

#include <gtest/gtest.h>

#include "batch.h"
#include "harness/verify.h"
#include "mutants/precision.h"
#include "print.h"

namespace gemm {

namespace {

std::string failure(const Rung& rung) {
  const std::unique_ptr<Device> device = make_sim_device();
  std::string all;
  for (const float beta : {0.0f, 0.5f}) {
    Problem p;
    p.M = 37, p.N = 41, p.K = 52;
    p.beta = beta;
    p.ld_pad = 4;  // keeps 16-byte rows for cp.async
    Verifier verifier(*device, p);
    if (const std::string why = verifier.verify(rung); !why.empty()) all += why + "\n";
  }
  return all;
}

class Mutant : public testing::TestWithParam<Rung> {};
TEST_P(Mutant, IsCaught) {
  const std::string why = failure(GetParam());
  EXPECT_NE(why, "") << GetParam().name << " passed verification";
  std::cout << "caught " << GetParam().name << ": " << why;
}

// Each pass by itself: sums bit for bit, and uniform inputs within the bound. Single products have no
// bias and no C, but scales.
Problem with_operands() {
  Problem p;
  p.M = 37, p.N = 41, p.K = 52;
  p.beta = 0.5f;
  p.activation = Activation::relu;
  p.operands = {true, true, true, true, true};
  return p;
}

class EpilogueMutant : public testing::TestWithParam<Rung> {};
TEST_P(EpilogueMutant, IsCaught) {
  const std::unique_ptr<Device> device = make_sim_device();
  Verifier verifier(*device, with_operands());
  for (const Inputs kind : {Inputs::sums, Inputs::uniform})
    EXPECT_NE(verifier.pass(GetParam(), kind, 0), "")
        << GetParam().name << " passed with " << (kind == Inputs::sums ? "sums" : "uniform inputs");
}

class Twin : public testing::TestWithParam<Rung> {};
TEST_P(Twin, Passes) { EXPECT_EQ(failure(GetParam()), ""); }

TEST(EpilogueTwin, Passes) {
  const std::unique_ptr<Device> device = make_sim_device();
  EXPECT_EQ(Verifier(*device, with_operands()).verify(correct_twins().front()), "");
}

Problem with_gates() {
  Problem p;
  p.M = 37, p.N = 42, p.K = 52;
  p.activation = Activation::relu;
  p.operands.bias = true;
  p.gated = true;
  return p;
}
class GateMutant : public testing::TestWithParam<Rung> {};
TEST_P(GateMutant, IsCaught) {
  const std::unique_ptr<Device> device = make_sim_device();
  Verifier verifier(*device, with_gates());
  for (const Inputs kind : {Inputs::sums, Inputs::uniform})
    EXPECT_NE(verifier.pass(GetParam(), kind, 0), "")
        << GetParam().name << " passed with " << (kind == Inputs::sums ? "sums" : "uniform inputs");
}
TEST(GateTwin, Passes) {
  const std::unique_ptr<Device> device = make_sim_device();
  EXPECT_EQ(Verifier(*device, with_gates()).verify(correct_gates()), "");
}

std::string failure_in_a_batch(const Rung& rung, Layouts layouts = Layouts::also_padded) {
  const std::unique_ptr<Device> device = make_sim_device();
  Problem p;
  p.M = 37, p.N = 41, p.K = 29, p.batch = 3;
  return Verifier(*device, p, layouts).verify(rung);
}

class BatchMutant : public testing::TestWithParam<Rung> {};
TEST_P(BatchMutant, IsCaught) {
  const std::string why = failure_in_a_batch(GetParam());
  EXPECT_NE(why, "") << GetParam().name << " passed verification";
  std::cout << "caught " << GetParam().name << ": " << why << "\n";
}
TEST(BatchTwin, Passes) {
  EXPECT_EQ(failure_in_a_batch(correct_batch()), "");
  // Without gaps there is nothing to ignore: the padded layout is what catches that.
  EXPECT_EQ(failure_in_a_batch(batch_mutants().back(), Layouts::as_asked), "");
}

// A residual, a bias or a scale that is read as half: single products have all bits of each.
class NarrowOperand : public testing::TestWithParam<Rung> {};
TEST_P(NarrowOperand, IsSeenByProducts) {
  const std::unique_ptr<Device> device = make_sim_device();
  EXPECT_NE(Verifier(*device, with_operands()).pass(GetParam(), Inputs::products, 0), "");
}

// A problem for each pass but sums, whose scales are the same for all k.
Problem with_block_scales() {
  Problem p;
  p.dtype = DType::e4m3_f32_block;
  p.M = 37, p.N = 300, p.K = 1100, p.ld_pad = 4;
  return p;
}
class BlockScaleMutant : public testing::TestWithParam<Rung> {};
TEST_P(BlockScaleMutant, IsCaught) {
  const std::unique_ptr<Device> device = make_sim_device();
  Verifier verifier(*device, with_block_scales(), Layouts::as_asked);
  EXPECT_NE(verifier.pass(GetParam(), Inputs::uniform, 4), "") << GetParam().name;
  EXPECT_NE(verifier.pass(GetParam(), Inputs::products, 4), "") << GetParam().name;
}
TEST(BlockScaleTwin, Passes) {
  const std::unique_ptr<Device> device = make_sim_device();
  Problem p = with_block_scales();
  EXPECT_EQ(Verifier(*device, p).verify(correct_block_scales()), "");
  p.alpha = 0.5f, p.beta = -1, p.K = 200, p.batch = 3, p.shared_b = true;
  EXPECT_EQ(Verifier(*device, p).verify([] {
    Rung rung = correct_block_scales();
    rung.launch = [one = rung.launch](const GemmCall& c) {
      for_each_product(c, DType::e4m3_f32_block, one);
    };
    return rung;
  }()),
            "");
}

// Kernels of the wrong precision, range or scalars are refused at every K that is timed, with scalars
// and without. mutants/verification_study.cpp tells which pass refuses which.
class Precision : public testing::TestWithParam<PrecisionMutant> {};
TEST_P(Precision, IsRefusedAtEveryK) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const int K : {64, 1024, 65536})
    for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {0.3f, 0.7f}}) {
      if (K < GetParam().from_K) continue;
      Problem p;
      p.dtype = GetParam().rung.dtype;
      p.M = p.N = 16, p.K = K, p.alpha = alpha, p.beta = beta;
      EXPECT_NE(Verifier(*device, p, Layouts::also_padded).verify(GetParam().rung), "")
          << "K " << K << " alpha " << alpha << " beta " << beta;
    }
}
class PrecisionTwin : public testing::TestWithParam<Rung> {};
TEST_P(PrecisionTwin, Passes) {
  const std::unique_ptr<Device> device = make_sim_device();
  for (const int K : {1, 2, 3, 64, 257, 4096, 65536}) {
    Problem p;
    p.dtype = GetParam().dtype;
    p.M = p.N = 16, p.K = K;
    EXPECT_EQ(Verifier(*device, p, Layouts::also_padded).verify(GetParam()), "") << "K " << K;
    p.alpha = 0.3f, p.beta = -0.7f;
    EXPECT_EQ(Verifier(*device, p).verify(GetParam()), "") << "K " << K << " with scalars";
  }
}
TEST(PrecisionTwin, MayDeclareNoMoreThanItsTypeAllows) {
  Rung rung = sim_precision_twins().front();
  for (const double error : {0.0, 0x1p-19}) {
    rung.product_error = error;
    EXPECT_EQ(excessive_error(rung), "");
  }
  for (const double error : {0x1.1p-19, -1e-9, double{NAN}}) {
    rung.product_error = error;
    EXPECT_NE(excessive_error(rung), "") << error;
  }
  rung.dtype = DType::f16, rung.product_error = 0x1p-30;
  EXPECT_NE(excessive_error(rung), "");
}

// Kernels under the other accumulation's name: sums of 14 bits are refused as promoted ones, whose
// integers exceed them from K = 2048 on; promoted sums pass as either.
TEST(Fp8Sums, FastOnesAreRefusedAsPromoted) {
  const std::unique_ptr<Device> device = make_sim_device();
  const auto failure = [&](const char* id, DType its, DType as, int K) {
    const Rung* const found = find_rung(Backend::sim, id, its);
    EXPECT_NE(found, nullptr) << id;
    if (found == nullptr) return std::string();
    Rung rung = *found;
    rung.dtype = as;
    Problem p;
    p.dtype = as, p.M = p.N = 64, p.K = K, p.op_b = Op::T;
    return Verifier(*device, p, Layouts::as_asked).verify(rung);
  };
  for (const int K : {2048, 4096}) {
    for (const auto& [fast, promoted] : {std::pair{DType::e4m3_fast, DType::e4m3},
                                         {DType::e4m3_f32_fast, DType::e4m3_f32},
                                         {DType::e5m2_fast, DType::e5m2}}) {
      EXPECT_EQ(failure("v30", fast, fast, K), "") << to_string(fast);
      EXPECT_NE(failure("v30", fast, promoted, K), "") << to_string(fast);
      EXPECT_EQ(failure("v31", promoted, promoted, K), "") << to_string(promoted);
      EXPECT_EQ(failure("v31", promoted, fast, K), "") << to_string(promoted);
    }
  }
  EXPECT_EQ(failure("v30", DType::e4m3_f32_fast, DType::e4m3_f32, 64), "") << "nothing is cut";
}
// The bound of uniform inputs alone does it, too.
TEST(Fp8Sums, FastOnesExceedTheBoundOfPromotedOnes) {
  const std::unique_ptr<Device> device = make_sim_device();
  Problem p;
  p.dtype = DType::e4m3_f32_fast, p.M = p.N = 64, p.K = 4096, p.op_b = Op::T;
  Verifier verifier(*device, p, Layouts::as_asked);
  ASSERT_EQ(verifier.verify(*find_rung(Backend::sim, "v30", p.dtype)), "");
  const double error = verifier.uniform().max_error;
  p.dtype = DType::e4m3_f32;
  EXPECT_GT(error, allowed_error(p, Inputs::uniform, 0));
}

const auto named = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Planted, Mutant, testing::ValuesIn(mutants()), named);
INSTANTIATE_TEST_SUITE_P(Planted, EpilogueMutant, testing::ValuesIn(epilogue_mutants()), named);
INSTANTIATE_TEST_SUITE_P(Planted, NarrowOperand, testing::ValuesIn(narrow_operand_mutants()),
                         named);
INSTANTIATE_TEST_SUITE_P(Planted, GateMutant, testing::ValuesIn(gate_mutants()), named);
INSTANTIATE_TEST_SUITE_P(Planted, BlockScaleMutant, testing::ValuesIn(block_scale_mutants()),
                         named);
INSTANTIATE_TEST_SUITE_P(Planted, BatchMutant, testing::ValuesIn(batch_mutants()), named);
INSTANTIATE_TEST_SUITE_P(Correct, Twin, testing::ValuesIn(correct_twins()), named);
INSTANTIATE_TEST_SUITE_P(Wrong, Precision, testing::ValuesIn(sim_precision_mutants()),
                         [](const auto& info) { return info.param.rung.name; });
INSTANTIATE_TEST_SUITE_P(Right, PrecisionTwin, testing::ValuesIn(sim_precision_twins()), named);

}  // namespace
}  // namespace gemm
