// The functions of src/device that are arithmetic alone, and so can be asked on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/persistent.cuh"
#include "device/scheduler.cuh"
#include "device/swizzle.cuh"

namespace {

using namespace gemm;

void expect_permutation(int group_m, int across, int tiles_m, int tiles_n) {
  std::vector<int> seen(tiles_m * tiles_n);
  for (int tile = 0; tile < tiles_m * tiles_n; ++tile) {
    const auto [m, n] = tile_in_order(tile, tiles_m, tiles_n, {group_m, across});
    ASSERT_TRUE(0 <= m && m < tiles_m && 0 <= n && n < tiles_n)
        << group_m << ", " << across << ": tile " << tile << " of " << tiles_m << " x " << tiles_n
        << " at " << m << ", " << n;
    ++seen[m * tiles_n + n];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), tiles_m * tiles_n)
      << group_m << ", " << across << ": " << tiles_m << " x " << tiles_n;
}

TEST(GroupedTile, IsAPermutationOfEveryGrid) {
  for (int tiles_m = 1; tiles_m <= 37; ++tiles_m)
    for (int tiles_n = 1; tiles_n <= 37; ++tiles_n)
      for (const int group_m : {1, 4, 8, 16})
        for (const int across : {1, 2}) expect_permutation(group_m, across, tiles_m, tiles_n);
}

// Two tiles with consecutive numbers, the first of them even: what the CTAs of a pair compute.
TEST(GroupedTile, TwoAcrossArePairsSideBySide) {
  for (int tile = 0; tile < 18 * 6; tile += 2) {
    const TileIndex one = tile_in_order(tile, 18, 6, {9, 2});
    const TileIndex other = tile_in_order(tile + 1, 18, 6, {9, 2});
    EXPECT_EQ(other.m, one.m);
    EXPECT_EQ(other.n, one.n + 1);
  }
  // An odd column is counted alone, from top to bottom.
  for (int tile = 0; tile < 4; ++tile) {
    const TileIndex at = tile_in_order(8 + tile, 4, 3, {4, 2});
    EXPECT_EQ(at.m, tile);
    EXPECT_EQ(at.n, 2);
  }
}

TEST(GroupedTile, IsTheOrderOfOneColumnAcross) {
  for (const int group_m : {1, 4, 8})
    for (int tile = 0; tile < 19 * 7; ++tile) {
      const TileIndex at = grouped_tile(tile, 19, 7, group_m);
      const TileIndex same = tile_in_order(tile, 19, 7, {group_m});
      ASSERT_TRUE(at.m == same.m && at.n == same.n) << group_m << ": tile " << tile;
    }
}

TEST(GroupedTile, OneRowAGroupIsRowByRow) {
  for (int tile = 0; tile < 15; ++tile) {
    const auto [m, n] = grouped_tile<1>(tile, 3, 5);
    EXPECT_EQ(m, tile / 5);
    EXPECT_EQ(n, tile % 5);
  }
}

// panels of A and of B that the first `blocks` tiles need.
template <int GROUP_M>
int panels(int blocks, int tiles_m, int tiles_n) {
  std::vector<bool> a(tiles_m), b(tiles_n);
  for (int tile = 0; tile < blocks; ++tile) {
    const auto [m, n] = grouped_tile<GROUP_M>(tile, tiles_m, tiles_n);
    a[m] = b[n] = true;
  }
  return std::count(a.begin(), a.end(), true) + std::count(b.begin(), b.end(), true);
}

TEST(GroupedTile, NeedsFewerPanels) {
  // Four blocks in flight on a grid of 4 x 4: 1 + 4 panels row by row, 2 + 2 in groups of two.
  EXPECT_EQ(panels<1>(4, 4, 4), 5);
  EXPECT_EQ(panels<2>(4, 4, 4), 4);
  // 132 blocks on the grid of 8192 x 8192 in tiles of 128 x 256.
  EXPECT_EQ(panels<1>(132, 64, 32), 5 + 32);
  EXPECT_EQ(panels<8>(132, 64, 32), 8 + 17);
  EXPECT_EQ(panels<16>(132, 64, 32), 16 + 9);
}

// The two ways to say it are one.
TEST(Swizzle, ByRowsIsByOffset) {
  for (const Swizzle mode : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const uint32_t span = static_cast<uint32_t>(mode);
    for (uint32_t row = 0; row < 64; ++row)
      for (uint32_t col = 0; col < span; ++col)
        EXPECT_EQ(row * span + swizzled_column(mode, row, col), swizzle(mode, row * span + col));
  }
}

}  // namespace
