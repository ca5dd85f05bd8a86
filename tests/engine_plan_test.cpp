// The plans of the engine's kernels (plan/engine.h), on the host.
#include <gtest/gtest.h>

#include <vector>

#include "plan/engine.h"

namespace gemm::engine {
namespace {

const Arch& ARCH = simulated_arch();

PlannedProblem problem(int m, int n, int k, bool a_k_major = true, bool b_k_major = true) {
  return {.M = m, .N = n, .K = k, .a_k_major = a_k_major, .b_k_major = b_k_major};
}
std::vector<Choice> all_choices(const PlannedProblem& p) {
  std::vector<Choice> all(1 << 16);
  all.resize(candidates(p, ARCH, all.data(), int(all.size())));
  return all;
}

// Tiles of a legal height that cover C, each CTA of a cluster with its own, and parts of K that have
// a k-tile each.
TEST(EnginePlan, ChoicesCoverC) {
  for (const int layout : {0, 1, 2, 3})
    for (const auto& [m, n, k] : {std::tuple{1, 8, 8},
                                  {77, 264, 72},
                                  {1176, 1680, 2512},
                                  {4096, 4096, 4096},
                                  {16, 16384, 1024}}) {
      const PlannedProblem p = problem(m, n, k, layout & 1, layout & 2);
      const std::vector<Choice> all = all_choices(p);
      ASSERT_FALSE(all.empty()) << m << " x " << n;
      for (const Choice& choice : all) {
        const Configuration& config = choice.config();
        const std::string what = explain(choice, ARCH.sms);
        const int X = choice.swapped ? n : m, Y = choice.swapped ? m : n;
        ASSERT_TRUE(supports(config, p, choice.swapped)) << what;
        ASSERT_GT(choice.us, 0) << what;
        if (config.ping_pong()) continue;  // row_panels_test.cpp
        const Rectangle& cut = choice.cut;
        ASSERT_TRUE(cut.height % 8 == 0 && cut.height >= config.shortest && cut.height <= config.by)
            << what;
        ASSERT_GE(cut.clusters_x * cut.cluster.x() * config.bx, X) << what;
        ASSERT_GE(cut.clusters_y * cut.cluster.y() * cut.height, Y) << what;
        ASSERT_LE(cut.parts, (k + 63) / 64) << what;
        ASSERT_LE(cut.cluster.size(), 8) << what;
      }
    }
}

// setmaxnreg gives a role registers of those that the CTA was launched with. For more it would wait
// for ever.
TEST(EnginePlan, RolesHaveNoMoreRegistersThanTheCTA) {
  for (const Configuration& c : CONFIGURATIONS) {
    const int launched = 65536 / c.threads() / 8 * 8 * c.threads();
    const int asked = 128 * (c.producer_registers() + c.warpgroups() * c.consumer_registers());
    EXPECT_LE(asked, launched) << c.bx << " x " << c.by;
  }
}

// y runs along an operand that is K-major, whose boxes have any height; or no operand is.
TEST(EnginePlan, OrientationByLayout) {
  const auto swapped = [](bool a_k_major, bool b_k_major, bool want) {
    for (const Choice& choice : all_choices(problem(600, 800, 512, a_k_major, b_k_major)))
      if (choice.config().schedule != Schedule::tiles && choice.swapped == want) return true;
    return false;
  };
  EXPECT_TRUE(swapped(true, false, true));
  EXPECT_FALSE(swapped(true, false, false));
  EXPECT_TRUE(swapped(false, true, false));
  EXPECT_FALSE(swapped(false, true, true));
  for (const bool want : {false, true}) {
    EXPECT_TRUE(swapped(true, true, want));
    EXPECT_TRUE(swapped(false, false, want));
  }
  for (const Choice& choice : all_choices(problem(600, 800, 512, false, false)))
    EXPECT_NE(choice.config().schedule, Schedule::row_panels);
}

// Groups: no other schedule takes them.
TEST(EnginePlan, EqualTilesTakeGroups) {
  PlannedProblem p = problem(600, 808, 512);
  p.groups = true;
  EXPECT_EQ(choose(p, ARCH, -1).config().schedule, Schedule::tiles);
  EXPECT_EQ(choose(p, ARCH, 0).configuration, -1);
}

// Rows of C off 16 bytes: rectangles store them where sums are added up, in a cluster or later.
TEST(EnginePlan, UnalignedRowsOfC) {
  PlannedProblem p = problem(600, 801, 512);
  p.aligned_c = false;
  for (const Choice& choice : all_choices(p)) {
    EXPECT_NE(choice.config().schedule, Schedule::row_panels);
    if (choice.config().schedule == Schedule::rectangle) {
      EXPECT_TRUE(choice.cut.in_cluster || choice.cut.parts > 1);
    }
  }
}

// Equal tiles, as groups have. More tiles than half of the SMs, up to three waves. The last three are rungs_test.cpp's PairsTest.
TEST(EnginePlan, PairsLieAlongTheShorterSide) {
  const auto pairs = [](int m, int n, int k) {
    PlannedProblem p = problem(m, n, k);
    p.groups = true;
    return choose(p, ARCH, -1).tiling.pairs;
  };
  EXPECT_EQ(pairs(2048, 512, 4096), Pairs::rows);
  EXPECT_EQ(pairs(512, 2048, 4096), Pairs::columns);
  EXPECT_EQ(pairs(512, 512, 4096), Pairs::none);
  EXPECT_EQ(pairs(4096, 4096, 4096), Pairs::none);
  EXPECT_EQ(pairs(700, 832, 64), Pairs::rows);
  EXPECT_EQ(pairs(570, 1408, 192), Pairs::columns);
  EXPECT_EQ(pairs(1030, 1152, 192), Pairs::rows);
}

// B stays where K is short and C large.
TEST(EnginePlan, BStaysWhereKIsShort) {
  Arch arch = ARCH;
  arch.ctas = arch.sms;
  const auto tiling = [&](int m, int n, int k, int configuration = -1) {
    const Choice choice = choose(problem(m, n, k), arch, configuration);
    EXPECT_EQ(choice.config().schedule, Schedule::tiles);
    return choice.tiling;
  };
  EXPECT_TRUE(tiling(8192, 8192, 256, TO_FLOAT).b_stays);
  EXPECT_TRUE(tiling(8192, 8192, 16, TO_FLOAT).b_stays);
  EXPECT_FALSE(tiling(8192, 8192, 448, TO_FLOAT).b_stays);   // B does not fit
  EXPECT_FALSE(tiling(8192, 8192, 0, TO_FLOAT).b_stays);     // there is no B
  EXPECT_FALSE(tiling(2048, 2048, 256, TO_FLOAT).b_stays);   // a CTA has two tiles
  EXPECT_FALSE(tiling(128, 131072, 256, TO_FLOAT).b_stays);  // a column has one
  EXPECT_FALSE(tiling(16384, 1024, 256, TO_FLOAT).b_stays);  // C has 8 columns
  EXPECT_FALSE(tiling(16384, 2048, 128, TO_FLOAT).b_stays);  // 16, and the shortest K
  EXPECT_TRUE(tiling(16384, 2048, 256, TO_FLOAT).b_stays);
  constexpr int NARROW = TO_FLOAT + 1;  // 64 x 128
  EXPECT_TRUE(tiling(8192, 8192, 512, NARROW).b_stays);
  EXPECT_FALSE(tiling(8192, 8192, 384, NARROW).b_stays);  // 128 x 128 holds this K
  EXPECT_FALSE(tiling(512, 32768, 512, NARROW).b_stays);  // 8 rows
  PlannedProblem groups = problem(8192, 8192, 256);
  groups.groups = true;
  EXPECT_FALSE(choose(groups, arch, TO_FLOAT).tiling.b_stays);
  // 96 columns of 64 tiles are 47 for a CTA: 17 of a column are left.
  EXPECT_TRUE(tiling(8192, 12288, 256, TO_FLOAT).b_stays);
  EXPECT_FALSE(tiling(8192, 12288, 192, TO_FLOAT).b_stays);
  EXPECT_TRUE(tiling(8192, 8192, 192, TO_FLOAT).b_stays);
  // The tile with which it stays is chosen: B of 384 fits beside 128 x 128, of 512 beside 64 x 128.
  EXPECT_EQ(tiling(16384, 16384, 384).bn, 128);
  EXPECT_EQ(tiling(16384, 16384, 512).bm, 64);
}

TEST(EnginePlan, TheLeastEstimateIsChosen) {
  for (const auto& p : {problem(512, 512, 16384), problem(4096, 4096, 4096)}) {
    const Choice best = choose(p, ARCH, -1);
    for (const Choice& choice : all_choices(p))  // equal tiles are chosen by area
      if (choice.config().schedule != Schedule::tiles) {
        ASSERT_LE(best.us, choice.us);
      }
    EXPECT_EQ(choose(p, ARCH, 3).configuration, 3);
  }
  for (int i = 0; i < CONFIGURATION_COUNT; ++i)
    if (!CONFIGURATIONS[i].ping_pong()) {
      EXPECT_GT(choose(problem(128, 128, 16384), ARCH, i).cut.parts, 1) << i;
    }
}

// A rung asked for by variant computes every shape, also those with nothing in C.
TEST(EnginePlan, EveryConfigurationTakesEmptyProblems) {
  for (const auto& p : {problem(0, 136, 64), problem(136, 0, 64), problem(136, 64, 0)})
    for (int i = -1; i < CONFIGURATION_COUNT; ++i)
      EXPECT_GE(choose(p, ARCH, i).configuration, 0) << i << ": " << p.M << " x " << p.N;
}

// Whole sums, from the beginning of K, of all choices: where rows must keep their bits.
TEST(EnginePlan, InvariantSumsAreWhole) {
  PlannedProblem p = problem(64, 128, 16384);
  EXPECT_GT(choose(p, ARCH, -1).cut.parts, 1);
  p.invariant = true;
  for (const int M : {1, 64, 640, 5000}) {
    p.M = M;
    for (const Choice& choice : all_choices(p)) {
      EXPECT_TRUE(choice.forwards || choice.config().schedule == Schedule::tiles);
      EXPECT_TRUE(choice.config().ping_pong() || choice.cut.parts == 1);
    }
    p.aligned_c = false;
    for (const Choice& choice : all_choices(p))
      EXPECT_EQ(choice.config().schedule, Schedule::tiles);
    p.aligned_c = true;
  }
}

// In every configuration, whoever stores the results.
TEST(EnginePlan, AnEpilogueTakesLonger) {
  for (int i = 0; i < CONFIGURATION_COUNT; ++i) {
    PlannedProblem p = problem(2048, 4096, 4096);
    const double plain = choose(p, ARCH, i).us;
    p.reads_c = p.vectors = p.function = true;
    EXPECT_GT(choose(p, ARCH, i).us, plain) << i;
  }
}

// A pass after the kernel takes a launch, and time for the memory; by turns the kernel does it all.
TEST(EnginePlan, CountsThePassOfAWholeEpilogue) {
  const PlannedProblem plain = problem(3000, 3000, 1024);
  PlannedProblem biased = plain;
  biased.vectors = biased.whole_epilogue = true;
  const EngineCosts& c = ARCH.costs->engine;
  const double pass = c.launch + 2 * 2e-6 * 3000 * 3000 / c.memory;
  for (int i = 0; i < CONFIGURATION_COUNT; ++i) {
    const double more = choose(biased, ARCH, i).us - choose(plain, ARCH, i).us;
    if (CONFIGURATIONS[i].ping_pong())
      EXPECT_LT(more, pass) << i;
    else
      EXPECT_NEAR(more, pass, 1e-6) << i;
  }
}

}  // namespace
}  // namespace gemm::engine
