// Estimated times of the FP32 kernels (plan/ffma.h), on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "plan/estimate.h"
#include "plan/ffma.h"

namespace gemm {
namespace {

const Arch& ARCH = simulated_arch();
const FfmaCosts& COSTS = ARCH.costs->fp32;

// As stored, rows without a gap; a base that is aligned.
PlannedProblem problem(int m, int n, int k) {
  return {
      .M = m, .N = n, .K = k, .element_bytes = 4, .a_aligned = k % 4 == 0, .b_aligned = n % 4 == 0};
}

double whole(const PlannedProblem& p) {
  double least = NEVER;
  for (const WholeTile& tile : WHOLE_TILES) least = std::min(least, whole_tile_us(p, ARCH, tile));
  return least;
}
double split(const PlannedProblem& p) { return best_split_tile(p, ARCH).us; }
// The tile and the number of splits of K of the fastest variant.
std::pair<SplitTile, int> best_of_splits(const PlannedProblem& p) {
  std::pair<SplitTile, int> found;
  for_each_split([&, best = best_split_tile(p, ARCH).variant](int variant, auto& tile, int splits) {
    if (variant == best) found = {tile, splits};
  });
  return found;
}

TEST(FfmaCosts, SmallResultsHaveTheirKSplit) {
  for (const auto& p : {problem(93, 120, 6295), problem(34, 835, 6037), problem(64, 64, 8192)}) {
    const auto [tile, splits] = best_of_splits(p);
    const int ctas = ceil_div(p.M, tile.bm) * ceil_div(p.N, tile.bn) * splits;
    EXPECT_GE(splits, 4) << p.M << " x " << p.N;
    EXPECT_GE(ctas, 32) << p.M << " x " << p.N;
    EXPECT_LT(split(p), whole(p) / 2);
  }
}

TEST(FfmaCosts, ShortKIsNotSplit) {
  for (const auto& p : {problem(205, 57, 44), problem(3329, 206, 48), problem(512, 512, 32)})
    EXPECT_EQ(best_of_splits(p).second, 1) << p.M << " x " << p.N;
}

TEST(FfmaCosts, NothingToComputeTakesATime) {
  for (const auto& p : {problem(0, 64, 64), problem(64, 0, 64), problem(64, 64, 0)})
    EXPECT_TRUE(std::isfinite(split(p))) << p.M << " x " << p.N << " x " << p.K;
}

TEST(FfmaCosts, LargeResultsAreWholeTiles) {
  for (const int n : {2048, 4096, 8192})
    EXPECT_LT(whole(problem(n, n, n)), split(problem(n, n, n))) << n;
}

// Never below the two limits of the card, whatever the shape.
TEST(FfmaCosts, NoEstimateBeatsTheCard) {
  for (const int m : {1, 32, 333, 4096})
    for (const int n : {1, 57, 1000, 8192})
      for (const int k : {1, 44, 700, 8192}) {
        const PlannedProblem p = problem(m, n, k);
        const double limit =
            std::max(2e-6 * m * n * k / (ARCH.sms * COSTS.ffma), memory_us(p, COSTS.memory)) +
            COSTS.split.launch;
        EXPECT_GE(split(p), limit) << m << " x " << n << " x " << k;
      }
}

TEST(FfmaCosts, UnalignedRowsTakeLonger) {
  PlannedProblem p = problem(1024, 1024, 1024);
  const double aligned_split = split(p), aligned_whole = whole(p);
  p.b_aligned = false;
  EXPECT_GT(split(p), aligned_split);
  EXPECT_GT(whole(p), aligned_whole);
}

}  // namespace
}  // namespace gemm
