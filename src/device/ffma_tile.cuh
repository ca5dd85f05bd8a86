// The FFMA tile: which thread has which elements of C, one K step, and the sums in memory.
#pragma once

#include "device/launch.h"
#include "device/vec.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A CTA tile of BM x BN x BK, TM x TN elements a thread, STAGES k-tiles in shared memory.
// Intra-CTA split-K: K_GROUPS groups of warps share the K steps of a k-tile. BLOCKS CTAs run on an
// SM at once.
// COPY and COMMIT say, in sixteenths of a k-tile, before which K step the next k-tile is asked for
// and stored. ptxas mixes both into the multiply-adds. Where they stand decides whether it keeps
// their order, and whether one of the six scoreboards serves a global load and a shared one alike,
// so that the next fragment waits for both: 44 to 53 TFLOPS for the same instructions.
template <int BM_, int BN_, int BK_, int TM_, int TN_, int STAGES_, int K_GROUPS_ = 1,
          int BLOCKS_ = 1, int COPY_ = 2, int COMMIT_ = 10, int LM_ = (TM_ < TN_) ? 8 : 4>
struct Tiling {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, STAGES = STAGES_;
  static constexpr int K_GROUPS = K_GROUPS_, K_GROUP = (BM / TM) * (BN / TN),
                       THREADS = K_GROUP * K_GROUPS;
  static constexpr int BLOCKS = BLOCKS_, COPY = COPY_, COMMIT = COMMIT_;
  static constexpr int LM = LM_, LN = 32 / LM;  // lanes of a warp along m, and along n
  static constexpr int SUMS = TM * TN / 4;      // vectors of sums a thread
  // Row strides of A's and of B's k-tile in shared memory, a stage, floats; K steps of a group. 4
  // more than a row has: operands that are transposed on the way have no bank conflicts.
  static constexpr int SA = BM + 4, SB = BN + 4, STAGE = BK * (SA + SB), KS = BK / K_GROUPS;
  static constexpr size_t PIPELINE = sizeof(float) * STAGES * STAGE, ALL_SUMS = 16 * SUMS * THREADS;
  static constexpr size_t SMEM =
      PIPELINE > ALL_SUMS ? PIPELINE : ALL_SUMS;  // bytes: the k-tiles, later the sums
};

// This thread's first row and column in the CTA tile. Bit 0 of the lane belongs to n and bit 1 to
// m: then lanes l, l^1 read the same words of A and l, l^2 the same of B, which halves the phases.
template <class Tile>
GEMM_DEVICE int2 thread_origin(int tid) {
  constexpr int WM = Tile::LM * Tile::TM, WN = Tile::LN * Tile::TN;
  const int warp = tid % Tile::K_GROUP / 32, lane = tid % 32;
  const int m = Tile::LM == 8 ? (lane >> 1 & 1) | lane >> 3 << 1 : lane >> 1 & 3;
  const int n = Tile::LM == 8 ? (lane & 1) | (lane >> 2 & 1) << 1 : (lane & 1) | lane >> 3 << 1;
  return {warp / (Tile::BN / WN) * WM + m * 4, warp % (Tile::BN / WN) * WN + n * 4};
}

// Where put_sums leaves element (m, n) of the tile, in floats, less 1 (the odd row comes first).
// Each bit of m and of n adds its own.
template <class Tile>
GEMM_DEVICE constexpr int sum_offset(int m, int n) {
  constexpr int WM = Tile::LM * Tile::TM, WN = Tile::LN * Tile::TN;
  const int i = m % WM / (4 * Tile::LM) * 4 + m % 4, j = n % WN / (4 * Tile::LN) * 4 + n % 4;
  const int warp = m / WM * (Tile::BN / WN) + n / WN;
  const int down = m / 4 % Tile::LM, right = n / 4 % Tile::LN;  // threads
  const int lane = Tile::LM == 8 ? (right & 1) | (down & 1) << 1 | right >> 1 << 2 | down >> 1 << 3
                                 : (right & 1) | down << 1 | right >> 1 << 3;
  return ((i / 2 * (Tile::TN / 2) + j / 2) * Tile::THREADS + warp * 32 + lane) * 4 + j % 2 * 2 -
         i % 2;
}

// A K step: the outer product of a column of A's k-tile and a row of B's. The order lets an operand
// stay from one multiply-add to the next: see put_sums.
template <int TM, int TN>
GEMM_DEVICE void multiply_step(float (&acc)[TM][TN], const float (&a)[TM], const float (&b)[TN]) {
#pragma unroll
  for (int j = 0; j < TN; ++j)
#pragma unroll
    for (int x = 0; x < TM; ++x) {
      const int y = j % 2 ? TM - 1 - x : x;                     // down and up again
      const int i = y < TM / 2 ? 2 * y : 2 * (TM - 1 - y) + 1;  // 0 2 4 6 7 5 3 1
      acc[i][j] += a[i] * b[j];
    }
}

// A thread's sums in memory, vector by vector, STRIDE vectors apart. A vector is 2 x 2 sums, column
// by column, of either the odd row first. It wants four registers in a row, from a multiple of four
// on, as do the rows of A; so the sums of even rows are kept in odd registers, the elements of even
// rows in even ones, and a multiply-add finds its operands in both register banks.
template <int STRIDE, int TM, int TN>
GEMM_DEVICE void put_sums(Vec<float>* to, const float (&acc)[TM][TN]) {
#pragma unroll
  for (int v = 0; v < TM * TN / 4; ++v) {
    const int i = v * 2 / TN * 2, j = v * 2 % TN;
    Vec<float> sums = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) sums.set(e, acc[i + 1 - e % 2][j + e / 2]);
    to[v * STRIDE] = sums;
  }
}

// Two such vectors side by side: 2 rows of 4.
struct SumBlock {
  float row[2][4] = {};
  // Adds the vectors at `from` and `stride` vectors on.
  GEMM_DEVICE void add(const Vec<float>* from, int stride) {
    const Vec<float> left = from[0], right = from[stride];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      row[1 - e % 2][e / 2] += left[e];
      row[1 - e % 2][2 + e / 2] += right[e];
    }
  }
};

GEMM_BUILD_NAMESPACE_END
