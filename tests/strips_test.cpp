// How C's rows are cut into strips (device/strips.cuh), on the host.
#include "device/strips.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gemm {
namespace {

constexpr int SMS = 132;

// As v27 launches them.
Strips evened_out(int M, int N, int highest) {
  return even_out(choose_strips(M, N, highest, SMS), SMS);
}

TEST(Strips, FillTheRounds) {
  const struct {
    int size, strips;
    int64_t rounds;
  } cases[] = {{1536, 11, 1}, {4096, 33, 8}, {5120, 33, 10}, {6144, 44, 16}};
  for (const auto& [size, count, rounds] : cases) {
    const Strips strips = choose_strips(size, size, Strips::HIGHEST, SMS);
    EXPECT_EQ(strips.count, count) << size;
    EXPECT_EQ(strips.rounds(SMS), rounds) << size;
    EXPECT_GT(strips.tiles(), (rounds - 1) * SMS + SMS * 9 / 10) << size;
  }
}

TEST(Strips, NoResults) {
  EXPECT_EQ(choose_strips(0, 128, Strips::HIGHEST, SMS).tiles(), 0);
  EXPECT_EQ(choose_strips(128, 0, Strips::HIGHEST, SMS).tiles(), 0);
}

// A block gets about as many high strips as any other.
TEST(Strips, ShareHighOnes) {
  for (const int size : {2560, 2816, 3328, 4096, 4352, 6144, 16384}) {
    const Strips strips = evened_out(size, size, Strips::HIGHEST);
    std::vector<int> rows(SMS);
    for (int block = 0; block < SMS; ++block)
      strips.for_each(block, SMS, [&](int, int, int high, int64_t) { rows[block] += high; });
    const double mean = double(size) * strips.columns / SMS;
    const int most = *std::max_element(rows.begin(), rows.end());
    EXPECT_EQ(most, strips.busiest(SMS)) << size;
    EXPECT_LT(most, mean * 1.02 + strips.height() / 8) << size;
  }
}

TEST(Strips, ShiftedWhereThatEvensThemOut) {
  for (const int size : {2816, 4352}) {
    const Strips strips = evened_out(size, size, Strips::HIGHEST);
    Strips half = strips;
    half.shift = strips.count / 2;
    EXPECT_LT(strips.busiest(SMS) * 1.01, half.busiest(SMS)) << size;
  }
  const Strips alike = evened_out(4096, 4096, Strips::HIGHEST);
  EXPECT_EQ(alike.shift, alike.count / 2) << "where nothing is better";
}

// In every column of tiles they cover M rows, each once, and are as high as a tile can be, at most.
TEST(Strips, CoverAllRows) {
  for (const int highest : {128, Strips::HIGHEST})
    for (const int M : {1, 7, 103, 104, 129, 161, 207, 208, 600, 1000, 1536, 4097, 16384, 1 << 22})
      for (const int N : {1, 128, 2500, 16384}) {
        const Strips strips = evened_out(M, N, highest);
        ASSERT_GE(strips.columns * Strips::WIDTH, N);
        for (const int x : {0, strips.group}) {
          EXPECT_EQ(strips.row(0, x), 0);
          EXPECT_GE(strips.row(strips.count, x), M);
          for (int y = 0; y < strips.count; ++y) {
            const int rows = strips.row(y + 1, x) - strips.row(y, x);
            ASSERT_LT(strips.row(y, x), M) << M << " x " << N << " strip " << y;
            ASSERT_LE(rows, highest) << M << " x " << N << " strip " << y;
            ASSERT_GE(rows, Strips::LOWEST) << M << " x " << N << " strip " << y;
          }
        }
      }
}

}  // namespace
}  // namespace gemm
