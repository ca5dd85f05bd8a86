// Estimated times of the kernels of 16-bit wgmma (device/wgmma_costs.h), on the host.
#include "device/wgmma_costs.h"

#include <gtest/gtest.h>

#include "plan/tiles.h"
#include "split_variant.h"

namespace gemm {
namespace {

const Arch& ARCH = simulated_arch();

FusedArgs<half> problem(int m, int n, int k) {
  FusedArgs<half> p{};
  p.M = m, p.N = n, p.K = k;
  return p;
}
double best(const FusedArgs<half>& p) { return best_split_k_tile(p, ARCH, ANY_VARIANT).us; }

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
  tall.op_b = Op::T;
  EXPECT_EQ(best(problem(16, 4096, 4096)), best(tall));
}

// Large results are those of persistent kernels: 1024 tiles of 128 x 128 on 132 SMs, in 8 waves.
TEST(WgmmaCosts, LargeResultsAreWholeTiles) {
  const auto p = problem(4096, 4096, 4096);
  EXPECT_LT(persistent_us(p, ARCH, 8 * 128 * 128), best(p));
}

// The epilogue of a CTA's last tile, which nothing hides, is shorter for a smaller tile.
TEST(WgmmaCosts, ALongEpilogueWantsSmallLastTiles) {
  constexpr Costs::Tile TILES[] = {{128, 192, 1.0}, {64, 192, 1.1}};
  const auto rows = [&](double epilogue) {
    return choose_tile(128 * 132, 192 * 4, TILES, 2, 132, ANY_VARIANT, 1, epilogue).tiling.bm;
  };
  EXPECT_EQ(rows(0), 128);
  EXPECT_EQ(rows(1), 64);
}

// The CTAs of a cluster share a tile's epilogue, which nothing hides.
TEST(WgmmaCosts, SplitTilesHaveAnEpilogueToo) {
  auto p = problem(64, 4096, 4096);
  const double plain = best(p);
  p.fused.beta = 1;
  p.fused.activation = Activation::gelu;
  EXPECT_GT(best(p), plain);
}

TEST(WgmmaCosts, NoEstimateBeatsMemory) {
  for (const int m : {1, 64, 1000})
    for (const int n : {8, 500, 8192})
      for (const int k : {1, 64, 8192})
        EXPECT_GE(best(problem(m, n, k)), memory_us(problem(m, n, k), ARCH.costs->wgmma))
            << m << " x " << n << " x " << k;
}

}  // namespace
}  // namespace gemm
