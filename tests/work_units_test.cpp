// The work units of stream-K's CTAs and their order, on the host.
#include "../kernels/v26_stream_k/work_units.cuh"

#include <gtest/gtest.h>

#include <vector>

namespace gemm {
namespace {

constexpr int BLOCKS = 132, K_TILES = 64, SHORT = 10;

// Of one CTA, for 4 x 75 tiles: 512 x 14336 results in tiles of 128 x 192.
std::vector<WorkUnit> units_of(int block, bool long_epilogue) {
  const WorkUnits units(block, BLOCKS, 4, 75, 16, K_TILES, long_epilogue);
  std::vector<WorkUnit> all;
  for (int nth = 0; nth < units.count(); ++nth) all.push_back(units[nth]);
  return all;
}

TEST(WorkUnits, ComputeEveryKTileOnce) {
  for (const bool long_epilogue : {false, true}) {
    std::vector<std::vector<int>> times(300, std::vector<int>(K_TILES));
    for (int block = 0; block < BLOCKS; ++block)
      for (const WorkUnit& unit : units_of(block, long_epilogue))
        for (int k = unit.begin; k < unit.end; ++k) ++times[unit.tile][k];
    EXPECT_EQ(times, std::vector(300, std::vector<int>(K_TILES, 1)));
  }
}

// The next CTA waits for the sums of a tile's first work unit.
TEST(WorkUnits, BeginWithWhatOthersWaitFor) {
  for (int block = 0; block < BLOCKS; ++block) {
    const std::vector<WorkUnit> units = units_of(block, true);
    for (size_t nth = 1; nth < units.size(); ++nth) EXPECT_EQ(units[nth].end, K_TILES) << block;
  }
}

// Consumers take turns, so a tile's epilogue has the time of the next work unit.
TEST(WorkUnits, ALongEpilogueHasAWholeTilesTime) {
  const auto hidden_by_short_units = [](bool long_epilogue) {
    int count = 0;
    for (int block = 0; block < BLOCKS; ++block) {
      const std::vector<WorkUnit> units = units_of(block, long_epilogue);
      for (size_t nth = 1; nth + 1 < units.size(); ++nth)
        count += units[nth - 1].end == K_TILES && units[nth].end - units[nth].begin < SHORT;
    }
    return count;
  };
  EXPECT_EQ(hidden_by_short_units(false), 12);
  EXPECT_EQ(hidden_by_short_units(true), 0);
}

}  // namespace
}  // namespace gemm
