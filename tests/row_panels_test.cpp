// How C's rows are cut into row panels (plan/row_panels.h) and walked over, on the host.
#include "device/row_panels.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gemm {
namespace {

constexpr int SMS = 132;
constexpr RowPanelShape ROW_PANELS_128{128, 104, 192};

// The heights of each CTA's tiles, in the order that it computes them.
std::vector<std::vector<int>> heights(const RowPanels& row_panels) {
  std::vector<std::vector<int>> rows(SMS);
  for (int block = 0; block < SMS; ++block)
    for_each_panel(row_panels, block, SMS,
                   [&](int, int, int height, int64_t) { rows[block].push_back(height); });
  return rows;
}

// `row_panels` in most columns, one more in `longer` of them: whole waves.
TEST(RowPanels, FillTheWaves) {
  const struct {
    int size, row_panels, longer;
    int64_t waves;
  } cases[] = {{1536, 11, 0, 1},  {2560, 19, 16, 3},  {4096, 24, 24, 6},  {5120, 33, 0, 10},
               {6144, 33, 0, 12}, {8192, 43, 20, 21}, {16384, 86, 80, 84}};
  for (const auto& [size, count, longer, waves] : cases) {
    const RowPanelChoice choice = choose_row_panels(size, size, ROW_PANELS_128, SMS);
    EXPECT_EQ(choice.row_panels.count, count) << size;
    EXPECT_EQ(choice.row_panels.columns[1], longer) << size;
    EXPECT_EQ(choice.tiles(), waves * SMS) << size;
    EXPECT_EQ(choice.waves(SMS), waves) << size;
  }
}

// Where shorter row panels would save next to nothing, taller ones win: they read less.
TEST(RowPanels, AreTallWhereItCostsLittle) {
  const RowPanelChoice choice = choose_row_panels(8192, 8192, ROW_PANELS_128, SMS);
  EXPECT_EQ(choice.row_panels.count, 43);  // and not 66, with the same makespan
}

// Two parts of columns end sooner than all columns alike, in as many row panels, and no later than
// in any other number of them.
TEST(RowPanels, LongerColumnsSaveWork) {
  for (const int size : {2304, 2560, 3328, 4352, 4864, 5376, 8192}) {
    const RowPanelChoice choice = choose_row_panels(size, size, ROW_PANELS_128, SMS);
    const int columns = choice.columns(), rows_8 = size / 8;
    EXPECT_GT(choice.row_panels.columns[1], 0) << size;
    const auto alike = [&](int count) {
      const int rows = rows_8 / count, tall = rows_8 % count;
      const RowPanels all{{columns, 0}, count, {rows, rows}, {tall, 0}, {16, 16}};
      return RowPanelChoice{ROW_PANELS_128, all}.makespan_rows(SMS);
    };
    EXPECT_LT(choice.makespan_rows(SMS), alike(choice.row_panels.count)) << size;
    for (int count = cdiv(size, ROW_PANELS_128.tallest);
         count <= rows_8 * 8 / ROW_PANELS_128.shortest; ++count)
      EXPECT_LE(choice.makespan_rows(SMS), 1.01 * double(alike(count))) << size << " in " << count;
  }
}

TEST(RowPanels, NoResults) {
  EXPECT_EQ(choose_row_panels(0, 128, ROW_PANELS_128, SMS).tiles(), 0);
  EXPECT_EQ(choose_row_panels(128, 0, ROW_PANELS_128, SMS).tiles(), 0);
}

// A block computes at most 8 rows more or less than another, in as many tiles; where there are
// three heights, 16.
TEST(RowPanels, ShareTallOnes) {
  for (const int size : {2560, 2816, 3328, 4096, 4352, 6144, 8192, 16384}) {
    const RowPanelChoice choice = choose_row_panels(size, size, ROW_PANELS_128, SMS);
    const auto rows = heights(choice.row_panels);
    std::vector<int64_t> sum(SMS);
    std::set<int> all;
    for (int block = 0; block < SMS; ++block)
      for (const int height : rows[block]) sum[block] += height, all.insert(height);
    EXPECT_LE(all.size(), 3u) << size;
    EXPECT_EQ(*all.rbegin(), choice.tallest()) << size;
    const double mean = double(size) * choice.columns() / SMS;
    const int64_t most = *std::max_element(sum.begin(), sum.end());
    EXPECT_EQ(most, choice.makespan_rows(SMS)) << size;
    EXPECT_LT(most, mean * 1.02 + choice.height() / 8) << size;
    for (int block = 0; block < SMS; ++block) {
      const int64_t fewer = (rows[0].size() - rows[block].size()) * *all.begin();
      EXPECT_LE(sum[0] - sum[block], fewer + 8 * (int(all.size()) - 1)) << size << " " << block;
    }
  }
}

// At any time all CTAs compute tiles of one height, except where some begin the next shorter ones.
TEST(RowPanels, TallOnesFirst) {
  const struct {
    int size;
    size_t waves, mixed;
  } cases[] = {{4096, 6, 2}, {5120, 10, 1}, {8192, 21, 1}};  // 4096 has three heights
  for (const auto& [size, waves, wanted] : cases) {
    const auto rows = heights(choose_row_panels(size, size, ROW_PANELS_128, SMS).row_panels);
    EXPECT_EQ(rows[0].size(), waves) << size;
    size_t mixed = 0;
    for (size_t wave = 0; wave < rows[0].size(); ++wave) {
      bool alike = true;
      for (const auto& block : rows) {
        ASSERT_EQ(block.size(), rows[0].size()) << size;
        alike &= block[wave] == rows[0][wave];
      }
      mixed += !alike;
    }
    EXPECT_EQ(mixed, wanted) << size;
  }
}

// In every column of tiles the row panels cover M rows, each once, and are no taller than a tile
// can be; what is loaded for them is no less. `panels_at` has their heights by column and row.
void expect_covered(const std::map<int, std::map<int, int>>& panels_at,
                    const RowPanelChoice& choice, int M, const RowPanelShape& shape,
                    const std::string& where) {
  EXPECT_EQ(int(panels_at.size()), choice.columns()) << where;
  for (const auto& [x, panel_at] : panels_at) {
    int end = 0;
    for (const auto& [m, rows] : panel_at) {
      ASSERT_EQ(m, end) << where << " column " << x;
      ASSERT_LT(m, M) << where << " column " << x;
      ASSERT_GE(rows, shape.shortest) << where;
      ASSERT_LE(rows, choice.row_panels.box(rows)) << where;
      ASSERT_LE(choice.row_panels.box(rows), shape.tallest) << where;
      end = m + rows;
    }
    EXPECT_GE(end, M) << where << " column " << x;
  }
}

TEST(RowPanels, CoverAllRows) {
  for (const RowPanelShape& shape :
       {ROW_PANELS_128, RowPanelShape{128, 104, 128}, RowPanelShape{64, 72, 128}})
    for (const int sms : {4, SMS})
      for (const int M :
           {1, 7, 103, 104, 129, 161, 207, 208, 472, 600, 760, 1000, 1536, 4097, 16384, 1 << 22})
        for (const int N : {1, 128, 600, 2500, 16384}) {
          if (M == 1 << 22 && (sms != SMS || N > 600))
            continue;  // millions of tiles, cut all alike
          const RowPanelChoice choice = choose_row_panels(M, N, shape, sms);
          const std::string where = std::to_string(M) + " x " + std::to_string(N);
          ASSERT_GE(choice.columns() * shape.width, N);
          std::map<int, std::map<int, int>> panels_at;
          int64_t tiles = 0;
          for_each_panel(choice.row_panels, 0, 1, [&](int x, int m, int rows, int64_t left) {
            ASSERT_TRUE(panels_at[x].emplace(m, rows).second) << where;
            ASSERT_EQ(left, choice.tiles() - tiles++) << where;
          });
          EXPECT_EQ(tiles, choice.tiles()) << where;
          expect_covered(panels_at, choice, M, shape, where);
        }
}

}  // namespace
}  // namespace gemm
