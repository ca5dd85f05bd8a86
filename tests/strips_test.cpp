// How C's rows are cut into strips (device/strips.cuh), on the host.
#include "device/strips.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gemm {
namespace {

constexpr int SMS = 132;

TEST(Strips, FillTheRounds) {
  const struct {
    int size, strips;
    int64_t rounds;
  } cases[] = {{1536, 11, 1}, {4096, 33, 8}, {5120, 33, 10}, {6144, 33, 12}, {16384, 99, 96}};
  for (const auto& [size, count, rounds] : cases) {
    const Strips strips = choose_strips(size, size, STRIPS, SMS);
    EXPECT_EQ(strips.count, count) << size;
    EXPECT_EQ(strips.rounds(SMS), rounds) << size;
    EXPECT_GT(strips.tiles(), (rounds - 1) * SMS + SMS * 9 / 10) << size;
  }
}

// Where lower strips would save next to nothing: higher ones read less.
TEST(Strips, AreHighWhereItCostsLittle) {
  const Strips strips = choose_strips(8192, 8192, STRIPS, SMS);
  EXPECT_EQ(strips.count, 43);  // and not 66, with 0.05 % less work in pairs
  const Strips wide = choose_strips(8192, 8192, WIDE_STRIPS, SMS);
  EXPECT_EQ(wide.count, 45);
  EXPECT_EQ(wide.rounds(SMS), 11);
}

TEST(Strips, NoResults) {
  EXPECT_EQ(choose_strips(0, 128, STRIPS, SMS).tiles(), 0);
  EXPECT_EQ(choose_strips(128, 0, STRIPS, SMS).tiles(), 0);
}

// A block computes at most 8 rows more or less than another, in as many tiles.
TEST(Strips, ShareHighOnes) {
  for (const int size : {2560, 2816, 3328, 4096, 4352, 6144, 16384}) {
    const Strips strips = choose_strips(size, size, STRIPS, SMS);
    std::vector<int64_t> rows(SMS);
    std::vector<int> tiles(SMS);
    for (int block = 0; block < SMS; ++block)
      strips.for_each(block, SMS,
                      [&](int, int, int high, int64_t) { rows[block] += high, ++tiles[block]; });
    const double mean = double(size) * strips.columns / SMS;
    const int64_t most = *std::max_element(rows.begin(), rows.end());
    EXPECT_EQ(most, strips.busiest(SMS)) << size;
    EXPECT_LT(most, mean * 1.02 + strips.height() / 8) << size;
    for (int block = 0; block < SMS; ++block) {
      const int64_t fewer = (tiles[0] - tiles[block]) * strips.eights * 8;
      EXPECT_LE(rows[0] - rows[block], fewer + 8) << size << " " << block;
    }
  }
}

// At any time all blocks but those that begin the low strips first compute tiles of one height.
TEST(Strips, HighOnesFirst) {
  const Strips strips = choose_strips(4096, 4096, STRIPS, SMS);
  std::vector<std::vector<int>> rows(SMS);
  for (int block = 0; block < SMS; ++block)
    strips.for_each(block, SMS, [&](int, int, int high, int64_t) { rows[block].push_back(high); });
  int mixed = 0;
  for (size_t round = 0; round < rows[0].size(); ++round) {
    bool alike = true;
    for (const auto& block : rows) alike &= block[round] == rows[0][round];
    mixed += !alike;
  }
  EXPECT_EQ(rows[0].size(), 8u);
  EXPECT_EQ(mixed, 1);
}

// In every column of tiles they cover M rows, each once, and are as high as a tile can be, at most.
TEST(Strips, CoverAllRows) {
  for (const StripShape& shape : {STRIPS, StripShape{128, 104, 128, 16}, WIDE_STRIPS})
    for (const int M : {1, 7, 103, 104, 129, 161, 207, 208, 600, 1000, 1536, 4097, 16384, 1 << 22})
      for (const int N : {1, 128, 2500, 16384}) {
        const Strips strips = choose_strips(M, N, shape, SMS);
        ASSERT_GE(strips.columns * shape.width, N);
        const auto where = [&] { return std::to_string(M) + " x " + std::to_string(N); };
        std::map<int, std::set<int>> columns_at;  // of the strip that begins at a row
        int end = 0;
        strips.for_each(0, 1, [&](int x, int m, int rows, int64_t) {
          ASSERT_LT(m, M) << where();
          ASSERT_LE(rows, shape.highest) << where();
          ASSERT_GE(rows, shape.lowest) << where();
          auto& columns = columns_at[m];
          if (columns.empty()) {
            ASSERT_EQ(m, end) << where();
            end = m + rows;
          }
          ASSERT_TRUE(columns.insert(x).second) << where();
        });
        EXPECT_GE(end, M) << where();
        for (const auto& [m, columns] : columns_at)
          ASSERT_EQ(int(columns.size()), strips.columns) << where() << " row " << m;
      }
}

// In stacks of two, one strip a block of a cluster, they cover M rows, each once; an odd one's
// neighbour lies below. None is higher than a tile, also where an even number of them would be.
TEST(Strips, StacksCoverAllRows) {
  for (const int N : {600, 5000, 15000})
    for (int M = 100; M < 9000; M += 61) {
      const Strips strips = choose_strips(M, N, wide_strips(2), SMS);
      const auto where = [&] { return std::to_string(M) + " x " + std::to_string(N); };
      std::map<int, int> rows_at;
      for (const int rank : {0, 1})
        strips.for_each<2>(0, 1, rank, [&](int x, int m, int rows, int64_t left) {
          ASSERT_GT(left, 0) << where();
          ASSERT_LE(rows, WIDE_STRIPS.highest) << where();
          ASSERT_GE(rows, WIDE_STRIPS.lowest) << where();
          if (x == 0 && m < M) {
            ASSERT_TRUE(rows_at.emplace(m, rows).second) << where() << " row " << m;
          }
        });
      int end = 0;
      for (const auto& [m, rows] : rows_at) {
        ASSERT_EQ(m, end) << where();
        end = m + rows;
      }
      EXPECT_GE(end, M) << where();
      EXPECT_EQ(strips.tiles<2>(), int64_t{cdiv(strips.count, 2)} * strips.columns) << where();
    }
}

}  // namespace
}  // namespace gemm
