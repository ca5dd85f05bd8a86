// Estimated times of the engine's kernels (plan/engine.h), on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "plan/engine.h"
#include "plan/estimate.h"

namespace gemm::engine {
namespace {

const Arch& ARCH = simulated_arch();

PlannedProblem problem(int m, int n, int k) { return {.M = m, .N = n, .K = k}; }
// Parts of K of the fastest choice.
int parts(const PlannedProblem& p) {
  const Choice choice = choose(p, ARCH, -1);
  return choice.config().ping_pong() ? 1 : choice.cut.parts;
}

// Equal tiles of bm x bn.
double tiles_us(const PlannedProblem& p, int bm, int bn) {
  for (int i = 0; i < CONFIGURATION_COUNT; ++i)
    if (const auto& c = CONFIGURATIONS[i];
        c.schedule == Schedule::tiles && c.bx == bm && c.by == bn)
      return choose(p, ARCH, i).us;
  throw std::logic_error("no such tiles");
}

TEST(EngineCosts, FewTilesShareTheirK) {
  for (const auto& p : {problem(64, 64, 16384), problem(256, 512, 16384)})
    EXPECT_GE(parts(p), 4) << p.M << " x " << p.N;
}

TEST(EngineCosts, KOfZeroTakesATime) {
  for (int i = -1; i < CONFIGURATION_COUNT; ++i)
    EXPECT_TRUE(std::isfinite(choose(problem(64, 64, 0), ARCH, i).us)) << i;
}

TEST(EngineCosts, ShortKIsNotShared) {
  for (const auto& p : {problem(16, 32768, 512), problem(12288, 64, 64), problem(4096, 4096, 64)})
    EXPECT_EQ(parts(p), 1) << p.M << " x " << p.N;
}

// C^T = B^T A^T: the transposed problem takes about as long, but by equal tiles, which are never of
// C^T. To store C^T takes other instructions.
TEST(EngineCosts, ATransposedProblemTakesAboutAsLong) {
  for (const bool a_k_major : {false, true})
    for (const bool b_k_major : {false, true}) {
      PlannedProblem p = problem(16, 4096, 4096), transposed = problem(4096, 16, 4096);
      p.a_k_major = transposed.b_k_major = a_k_major;
      p.b_k_major = transposed.a_k_major = b_k_major;
      for (int i = 0; i < CONFIGURATION_COUNT; ++i)
        if (CONFIGURATIONS[i].schedule == Schedule::rectangle) {
          const double us = choose(p, ARCH, i).us;
          EXPECT_NEAR(choose(transposed, ARCH, i).us, us, 0.1 * us) << i;
        }
    }
}

// The epilogue of a CTA's last tile, which nothing hides, is shorter for a smaller tile.
TEST(EngineCosts, AnEpilogueIsShorterForSmallTiles) {
  const auto added = [](int bm, int bn) {
    auto p = problem(4096, 4096, 4096);
    const double plain = tiles_us(p, bm, bn);
    p.reads_c = p.function = true;
    return tiles_us(p, bm, bn) - plain;
  };
  EXPECT_GT(added(64, 128), 0);
  EXPECT_GT(added(128, 192), added(64, 128));
}

// C is cut in tiles of whole rows and columns: those of a batch lie in the same waves.
TEST(EngineCosts, ProductsOfABatchShareWaves) {
  auto p = problem(128, 192, 4096);
  const double one = tiles_us(p, 128, 192);
  p.products = 100;
  EXPECT_LT(tiles_us(p, 128, 192), 10 * one);
  p.products = 1000;
  EXPECT_GT(tiles_us(p, 128, 192), 15 * one);
}

TEST(EngineCosts, RowsOfCThatAreNotWholeTakeLonger) {
  auto p = problem(8192, 8192, 64);
  const double aligned = tiles_us(p, 128, 192);
  p.c = RowRequests::half;
  EXPECT_GT(tiles_us(p, 128, 192), aligned);
  p.aligned_c = false;
  EXPECT_GT(tiles_us(p, 128, 192), aligned);
}

TEST(EngineCosts, NoEstimateBeatsMemory) {
  const ::gemm::EngineCosts& c = ARCH.costs->engine;
  for (const int m : {1, 64, 1000})
    for (const int n : {8, 500, 8192})
      for (const int k : {1, 64, 8192}) {
        const PlannedProblem p = problem(m, n, k);
        EXPECT_GE(choose(p, ARCH, -1).us, c.alone * memory_us(p, c.memory))
            << m << " x " << n << " x " << k;
      }
}

}  // namespace
}  // namespace gemm::engine
