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

// Of all strips: the heights of each block's tiles, in turn.
std::vector<std::vector<int>> heights(const Strips& strips) {
  std::vector<std::vector<int>> rows(SMS);
  for (int block = 0; block < SMS; ++block)
    strips.for_each(block, SMS, [&](int, int, int high, int64_t) { rows[block].push_back(high); });
  return rows;
}

// `strips` in most columns, one more in `longer` of them: whole rounds.
TEST(Strips, FillTheRounds) {
  const struct {
    int size, strips, longer;
    int64_t rounds;
  } cases[] = {{1536, 11, 0, 1},  {2560, 19, 16, 3},  {4096, 24, 24, 6},  {5120, 33, 0, 10},
               {6144, 33, 0, 12}, {8192, 43, 20, 21}, {16384, 86, 80, 84}};
  for (const auto& [size, count, longer, rounds] : cases) {
    const StripChoice choice = choose_strips(size, size, STRIPS, SMS);
    EXPECT_EQ(choice.strips.count, count) << size;
    EXPECT_EQ(choice.strips.columns[1], longer) << size;
    EXPECT_EQ(choice.tiles(), rounds * SMS) << size;
    EXPECT_EQ(choice.rounds(SMS), rounds) << size;
  }
}

// Where lower strips would save next to nothing: higher ones read less.
TEST(Strips, AreHighWhereItCostsLittle) {
  const StripChoice choice = choose_strips(8192, 8192, STRIPS, SMS);
  EXPECT_EQ(choice.strips.count, 43);  // and not 66, with the same work
  const StripChoice wide = choose_strips(8192, 8192, WIDE_STRIPS, SMS);
  EXPECT_EQ(wide.strips.count, 45);
  EXPECT_EQ(wide.tiles(), 11 * SMS);
}

// Where all columns have as many strips, a part of them cannot be better: it is one of the choices.
TEST(Strips, LongerColumnsSaveWork) {
  for (const int size : {2304, 2560, 3328, 4352, 4864, 5376, 8192}) {
    const StripChoice choice = choose_strips(size, size, STRIPS, SMS);
    const int columns = choice.columns(), eights = size / 8;
    EXPECT_GT(choice.strips.columns[1], 0) << size;
    for (int count = cdiv(size, STRIPS.highest); count <= eights * 8 / STRIPS.lowest; ++count)
      EXPECT_LT(choice.work(SMS, 6), StripChoice(STRIPS, columns, 0, count, eights).work(SMS, 6))
          << size << " in " << count;
  }
}

TEST(Strips, NoResults) {
  EXPECT_EQ(choose_strips(0, 128, STRIPS, SMS).tiles(), 0);
  EXPECT_EQ(choose_strips(128, 0, STRIPS, SMS).tiles(), 0);
}

// A block computes at most 8 rows more or less than another, in as many tiles; where there are
// three heights, 16.
TEST(Strips, ShareHighOnes) {
  for (const int size : {2560, 2816, 3328, 4096, 4352, 6144, 8192, 16384}) {
    const StripChoice choice = choose_strips(size, size, STRIPS, SMS);
    const auto rows = heights(choice.strips);
    std::vector<int64_t> sum(SMS);
    std::set<int> all;
    for (int block = 0; block < SMS; ++block)
      for (const int high : rows[block]) sum[block] += high, all.insert(high);
    EXPECT_LE(all.size(), 3u) << size;
    EXPECT_EQ(*all.rbegin(), choice.highest()) << size;
    const double mean = double(size) * choice.columns() / SMS;
    const int64_t most = *std::max_element(sum.begin(), sum.end());
    EXPECT_EQ(most, choice.busiest(SMS)) << size;
    EXPECT_LT(most, mean * 1.02 + choice.height() / 8) << size;
    for (int block = 0; block < SMS; ++block) {
      const int64_t fewer = (rows[0].size() - rows[block].size()) * *all.begin();
      EXPECT_LE(sum[0] - sum[block], fewer + 8 * (int(all.size()) - 1)) << size << " " << block;
    }
  }
}

// At any time all blocks compute tiles of one height, but where some begin the next lower ones.
TEST(Strips, HighOnesFirst) {
  const struct {
    int size;
    size_t rounds, mixed;
  } cases[] = {{4096, 6, 2}, {5120, 10, 1}, {8192, 21, 1}};  // 4096 has three heights
  for (const auto& [size, rounds, wanted] : cases) {
    const auto rows = heights(choose_strips(size, size, STRIPS, SMS).strips);
    EXPECT_EQ(rows[0].size(), rounds) << size;
    size_t mixed = 0;
    for (size_t round = 0; round < rows[0].size(); ++round) {
      bool alike = true;
      for (const auto& block : rows) {
        ASSERT_EQ(block.size(), rows[0].size()) << size;
        alike &= block[round] == rows[0][round];
      }
      mixed += !alike;
    }
    EXPECT_EQ(mixed, wanted) << size;
  }
}

// In every column of tiles the strips cover M rows, each once, and are as high as a tile can be, at
// most; what is loaded for them is no less. `strips_at` has their heights by column and row.
void expect_covered(const std::map<int, std::map<int, int>>& strips_at, const StripChoice& choice,
                    int M, const StripShape& shape, const std::string& where) {
  EXPECT_EQ(int(strips_at.size()), choice.columns()) << where;
  for (const auto& [x, strip_at] : strips_at) {
    int end = 0;
    for (const auto& [m, rows] : strip_at) {
      ASSERT_EQ(m, end) << where << " column " << x;
      ASSERT_LT(m, M) << where << " column " << x;
      ASSERT_GE(rows, shape.lowest) << where;
      ASSERT_LE(rows, choice.strips.box(rows)) << where;
      ASSERT_LE(choice.strips.box(rows), shape.highest) << where;
      end = m + rows;
    }
    EXPECT_GE(end, M) << where << " column " << x;
  }
}

TEST(Strips, CoverAllRows) {
  for (const StripShape& shape : {STRIPS, StripShape{128, 104, 128, 16}, WIDE_STRIPS})
    for (const int sms : {4, SMS})
      for (const int M :
           {1, 7, 103, 104, 129, 161, 207, 208, 472, 600, 760, 1000, 1536, 4097, 16384, 1 << 22})
        for (const int N : {1, 128, 600, 2500, 16384}) {
          if (M == 1 << 22 && sms != SMS) continue;  // millions of tiles, cut all alike
          const StripChoice choice = choose_strips(M, N, shape, sms);
          const std::string where = std::to_string(M) + " x " + std::to_string(N);
          ASSERT_GE(choice.columns() * shape.width, N);
          std::map<int, std::map<int, int>> strips_at;
          int64_t tiles = 0;
          choice.strips.for_each(0, 1, [&](int x, int m, int rows, int64_t left) {
            ASSERT_TRUE(strips_at[x].emplace(m, rows).second) << where;
            ASSERT_EQ(left, choice.tiles() - tiles++) << where;
          });
          EXPECT_EQ(tiles, choice.tiles()) << where;
          expect_covered(strips_at, choice, M, shape, where);
        }
}

// In stacks of two, one strip a block of a cluster, they do too; an odd one's neighbour lies below.
TEST(Strips, StacksCoverAllRows) {
  const StripShape shape = wide_strips(2);
  int longer = 0;
  for (const int N : {600, 5000, 15000})
    for (int M = 100; M < 9000; M += 61) {
      const StripChoice choice = choose_strips(M, N, shape, SMS);
      const std::string where = std::to_string(M) + " x " + std::to_string(N);
      std::map<int, std::map<int, int>> strips_at;
      int64_t stacks = 0;
      for (const int rank : {0, 1})
        choice.strips.for_each<2>(0, 1, rank, [&](int x, int m, int rows, int64_t left) {
          ASSERT_EQ(left, choice.stacks() - stacks++ % choice.stacks()) << where;
          ASSERT_LE(rows, shape.highest) << where;
          ASSERT_GE(rows, shape.lowest) << where;
          if (m < M) {
            ASSERT_TRUE(strips_at[x].emplace(m, rows).second) << where << " row " << m;
          }
        });
      EXPECT_EQ(stacks, 2 * choice.stacks()) << where;
      expect_covered(strips_at, choice, M, shape, where);
      longer += choice.strips.columns[1] > 0;
    }
  EXPECT_GT(longer, 20);  // otherwise nothing here has columns of two kinds
}

}  // namespace
}  // namespace gemm
