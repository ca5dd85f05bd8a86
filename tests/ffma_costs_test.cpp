// Estimated times of the FP32 kernels (device/ffma_costs.h), on the host.
#include "device/ffma_costs.h"

#include <gtest/gtest.h>

#include <vector>

namespace gemm {
namespace {

constexpr int SMS = 132;

// As stored, rows without a gap; a base that is aligned.
GemmArgs<float> problem(int m, int n, int k) {
  static const float* const aligned = reinterpret_cast<const float*>(uintptr_t{4096});
  return {m, n, k, aligned, k, aligned, n, nullptr, n, 1, 0, Op::N, Op::N};
}

double whole(const GemmArgs<float>& p) {
  return best_whole_tile(p, SMS, [](int) { return true; }).us;
}
double cut(const GemmArgs<float>& p) { return best_cut_tile(p, SMS).us; }

// The variant's tile and number of pieces.
std::pair<CutTile, int> variant(int index) {
  for (const CutTile& tile : CUT_TILES)
    for (int cuts = 1; cuts <= tile.most_cuts; cuts *= 2)
      if (index-- == 0) return {tile, cuts};
  ADD_FAILURE() << "no such variant";
  return {};
}

TEST(FfmaCosts, SmallResultsHaveTheirKCut) {
  for (const auto& p : {problem(93, 120, 6295), problem(34, 835, 6037), problem(64, 64, 8192)}) {
    const auto [tile, cuts] = variant(best_cut_tile(p, SMS).variant);
    const int ctas = cdiv(p.M, tile.bm) * cdiv(p.N, tile.bn) * cuts;
    EXPECT_GE(cuts, 4) << p.M << " x " << p.N;
    EXPECT_GE(ctas, 32) << p.M << " x " << p.N;
    EXPECT_LT(cut(p), whole(p) / 2);
  }
}

TEST(FfmaCosts, ShortKIsNotCut) {
  for (const auto& p : {problem(205, 57, 44), problem(3329, 206, 48), problem(512, 512, 32)})
    EXPECT_EQ(variant(best_cut_tile(p, SMS).variant).second, 1) << p.M << " x " << p.N;
}

TEST(FfmaCosts, LargeResultsAreWholeTiles) {
  for (const int n : {2048, 4096, 8192})
    EXPECT_LT(whole(problem(n, n, n)), cut(problem(n, n, n))) << n;
}

// Never below the two limits of the card, whatever the shape.
TEST(FfmaCosts, NoEstimateBeatsTheCard) {
  for (const int m : {1, 32, 333, 4096})
    for (const int n : {1, 57, 1000, 8192})
      for (const int k : {1, 44, 700, 8192}) {
        const GemmArgs<float> p = problem(m, n, k);
        const double limit =
            std::max(2e-6 * m * n * k / (SMS * FFMA_COSTS.ffma), memory_us(p)) + FFMA_COSTS.launch;
        EXPECT_GE(cut(p), limit) << m << " x " << n << " x " << k;
      }
}

TEST(FfmaCosts, UnalignedRowsTakeLonger) {
  GemmArgs<float> p = problem(1024, 1024, 1024);
  const double aligned_cut = cut(p), aligned_whole = whole(p);
  p.B += 1;
  EXPECT_GT(cut(p), aligned_cut);
  EXPECT_GT(whole(p), aligned_whole);
}

}  // namespace
}  // namespace gemm
