// Every planted bug must be caught by the same checks that rungs have to pass, at one ragged
// problem with beta and one without.
#include "mutants/mutants.h"

#include <gtest/gtest.h>

#include "harness/verify.h"
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

class Twin : public testing::TestWithParam<Rung> {};
TEST_P(Twin, Passes) { EXPECT_EQ(failure(GetParam()), ""); }

const auto named = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Planted, Mutant, testing::ValuesIn(mutants()), named);
INSTANTIATE_TEST_SUITE_P(Correct, Twin, testing::ValuesIn(correct_twins()), named);

}  // namespace
}  // namespace gemm
