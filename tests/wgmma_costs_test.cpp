// Estimated times of the kernels of 16-bit wgmma (plan/split_k.h, plan/engine.h), on the host.
#include <gtest/gtest.h>

#include "plan/engine.h"
#include "plan/estimate.h"
#include "plan/split_k.h"
#include "split_variant.h"

namespace gemm {
namespace {

const Arch& ARCH = simulated_arch();

PlannedProblem problem(int m, int n, int k) { return {.M = m, .N = n, .K = k}; }
double best(const PlannedProblem& p) { return best_split_k_tile(p, ARCH, ANY_VARIANT).us; }

TEST(WgmmaCosts, FewTilesShareTheirK) {
  for (const auto& p : {problem(64, 64, 16384), problem(256, 512, 16384), problem(128, 1280, 8192)})
    EXPECT_GE(split_variant(SPLIT_K_TILES, best_split_k_tile(p, ARCH, ANY_VARIANT).variant).second,
              4)
        << p.M << " x " << p.N;
}

TEST(WgmmaCosts, ShortKIsNotShared) {
  for (const auto& p : {problem(16, 32768, 512), problem(12288, 64, 64), problem(4096, 4096, 64)})
    EXPECT_EQ(split_variant(SPLIT_K_TILES, best_split_k_tile(p, ARCH, ANY_VARIANT).variant).second,
              1)
        << p.M << " x " << p.N;
}

// 160 tiles of 64 rows are one wave and a fifth, or 1.2 tiles for each of 132 SMs. 128 are one wave.
TEST(WgmmaCosts, EqualSharesWhereTilesFitNoWave) {
  const auto shares = [](const auto& p) { return best_stream_k_tile(p, ARCH, ANY_VARIANT).us; };
  for (const auto& p : {problem(16, 10240, 5120), problem(64, 9216, 3072), problem(1, 5120, 8192)})
    EXPECT_LT(shares(p), 0.97 * best(p)) << p.M << " x " << p.N;
  EXPECT_GT(shares(problem(64, 64, 16384)), best(problem(64, 64, 16384)));
}

// C^T = B^T A^T: which side is the long one makes no difference, if the short operand's rows run along
// k either way. Narrow tiles of rows along n come in short rows.
TEST(WgmmaCosts, BothSidesAreAlike) {
  auto tall = problem(4096, 16, 4096);
  EXPECT_LT(best(problem(16, 4096, 4096)), best(tall));
  tall.b_k_major = true;
  EXPECT_EQ(best(problem(16, 4096, 4096)), best(tall));
}

TEST(WgmmaCosts, LargeResultsAreWholeTiles) {
  const auto p = problem(4096, 4096, 4096);
  EXPECT_LT(engine::whole_tiles_us(p, ARCH, 128, 128), best(p));
}

// The epilogue of a CTA's last tile, which nothing hides, is shorter for a smaller tile.
TEST(WgmmaCosts, AnEpilogueIsShorterForSmallTiles) {
  const auto added = [](int bm, int bn) {
    auto p = problem(4096, 4096, 4096);
    const double plain = engine::whole_tiles_us(p, ARCH, bm, bn);
    p.reads_c = p.function = true;
    return engine::whole_tiles_us(p, ARCH, bm, bn) - plain;
  };
  EXPECT_GT(added(64, 128), 0);
  EXPECT_GT(added(128, 192), added(64, 128));
}

// C is cut in tiles of whole rows and columns: those of a batch lie in the same waves.
TEST(WgmmaCosts, ProductsOfABatchShareWaves) {
  auto p = problem(128, 192, 4096);
  const double one = engine::whole_tiles_us(p, ARCH, 128, 192);
  p.products = 100;
  EXPECT_LT(engine::whole_tiles_us(p, ARCH, 128, 192), 10 * one);
  p.products = 1000;
  EXPECT_GT(engine::whole_tiles_us(p, ARCH, 128, 192), 20 * one);
}

TEST(WgmmaCosts, RowsOfCThatAreNotWholeTakeLonger) {
  auto p = problem(8192, 8192, 64);
  const double aligned = engine::whole_tiles_us(p, ARCH, 128, 192), few = best(p);
  p.aligned_c = false;
  EXPECT_GT(engine::whole_tiles_us(p, ARCH, 128, 192), aligned);
  EXPECT_GT(best(p), few);
}

// The CTAs of a cluster share a tile's epilogue, which nothing hides.
TEST(WgmmaCosts, SplitTilesHaveAnEpilogueToo) {
  auto p = problem(64, 4096, 4096);
  const double plain = best(p);
  p.reads_c = p.function = true;
  EXPECT_GT(best(p), plain);
}

TEST(WgmmaCosts, NoEstimateBeatsMemory) {
  for (const int m : {1, 64, 1000})
    for (const int n : {8, 500, 8192})
      for (const int k : {1, 64, 8192})
        EXPECT_GE(best(problem(m, n, k)), memory_us(problem(m, n, k), ARCH.costs->wgmma.memory))
            << m << " x " << n << " x " << k;
}

}  // namespace
}  // namespace gemm
