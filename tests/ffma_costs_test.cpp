// Estimated times of the FP32 kernels (device/ffma_costs.h), on the host.
#include "device/ffma_costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "split_variant.h"

namespace gemm {
namespace {

constexpr int SMS = 132;
const FfmaCosts& COSTS = costs_of("NVIDIA H200").fp32;

// As stored, rows without a gap; a base that is aligned.
GemmArgs<float> problem(int m, int n, int k) {
  static const float* const aligned = reinterpret_cast<const float*>(uintptr_t{4096});
  return {{}, m, n, k, aligned, k, aligned, n, nullptr, n, {}, Op::N, Op::N};
}

double whole(const GemmArgs<float>& p) {
  return best_whole_tile(p, SMS, COSTS, [](int) { return true; }).us;
}
double split(const GemmArgs<float>& p) { return best_split_tile(p, SMS, COSTS).us; }

TEST(FfmaCosts, SmallResultsHaveTheirKSplit) {
  for (const auto& p : {problem(93, 120, 6295), problem(34, 835, 6037), problem(64, 64, 8192)}) {
    const auto [tile, splits] = split_variant(SPLIT_TILES, best_split_tile(p, SMS, COSTS).variant);
    const int ctas = cdiv(p.M, tile.bm) * cdiv(p.N, tile.bn) * splits;
    EXPECT_GE(splits, 4) << p.M << " x " << p.N;
    EXPECT_GE(ctas, 32) << p.M << " x " << p.N;
    EXPECT_LT(split(p), whole(p) / 2);
  }
}

TEST(FfmaCosts, ShortKIsNotSplit) {
  for (const auto& p : {problem(205, 57, 44), problem(3329, 206, 48), problem(512, 512, 32)})
    EXPECT_EQ(split_variant(SPLIT_TILES, best_split_tile(p, SMS, COSTS).variant).second, 1)
        << p.M << " x " << p.N;
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
        const GemmArgs<float> p = problem(m, n, k);
        const double limit = std::max(2e-6 * m * n * k / (SMS * COSTS.ffma), memory_us(p, COSTS)) +
                             COSTS.split.launch;
        EXPECT_GE(split(p), limit) << m << " x " << n << " x " << k;
      }
}

TEST(FfmaCosts, UnalignedRowsTakeLonger) {
  GemmArgs<float> p = problem(1024, 1024, 1024);
  const double aligned_split = split(p), aligned_whole = whole(p);
  p.B += 1;
  EXPECT_GT(split(p), aligned_split);
  EXPECT_GT(whole(p), aligned_whole);
}

}  // namespace
}  // namespace gemm
