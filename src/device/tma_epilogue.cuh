// Accumulators to C through shared memory, in tiles. Taught in v23.
#pragma once

#include "device/swizzle.cuh"
#include "device/tma.h"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// COUNT pairs of T a thread, to panels of 64 x 64, swizzled as TMA wants them: by a warpgroup whose
// accumulators they are, pair i being elements 2 i and 2 i + 1.
template <int COUNT>
GEMM_DEVICE void stage_pairs(uint8_t* sC, const uint32_t* pairs) {
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4) {  // 16 columns: four 8 x 8 matrices
    const uint32_t words[4] = {pairs[i], pairs[i + 1], pairs[i + 2], pairs[i + 3]};
    stmatrix(sC + i / 16 * 8192 + swizzle(Swizzle::b128, row * 128 + (i / 2 % 8 + half) * 16),
             words);
  }
}

// The accumulators as pairs of T.
template <class T, int COUNT>
GEMM_DEVICE void pack_accumulators(uint32_t (&pairs)[COUNT / 2], const float (&acc)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) pairs[i] = pack_pair<T>(acc[2 * i], acc[2 * i + 1]);
}

// Both at once.
template <class T, int COUNT>
GEMM_DEVICE void stage_accumulators(uint8_t* sC, const float (&acc)[COUNT]) {
  uint32_t pairs[COUNT / 2];
  pack_accumulators<T>(pairs, acc);
  stage_pairs<COUNT / 2>(sC, pairs);
}

// What a warp left there of COLS columns, its 16 rows, to C at (m, n): by one lane, as one group;
// boxes of map_c are 16 x 64. A warp that stores its own rows waits for no other. Taught in v24.
template <int COLS, class T>
GEMM_DEVICE void store_staged_panels(const GemmArgs<T>& p, const TensorMap& map_c, int m, int n,
                                     const uint8_t* sC GEMM_CALLER_ARG) {
  const int row = threadIdx.x % 128 / 32 * 16;
#pragma unroll
  for (int i = 0; i < COLS / 64; ++i)
    if (m + row < p.M && n + i * 64 < p.N)
      tma_store(map_c, m + row, n + i * 64, sC + i * 8192 + row * 128 GEMM_CALLER_PASS);
  tma_store_commit();
}

// The same without TMA, wherever rows begin: each warp stores its own 16 rows, a row's neighbouring
// words by neighbouring lanes. A word of C may lie across two of the tile's: its elements are read
// one by one.
template <int COLS, class T>
GEMM_DEVICE void store_staged_rows(const GemmArgs<T>& p, int m, int n, const uint8_t* sC) {
  const int first = threadIdx.x % 128 / 32 * 16, lane = threadIdx.x % 32;
  const int cols = p.N - n < COLS ? p.N - n : COLS;
  if (cols <= 0) return;
#pragma unroll 4
  for (int row = first; row < first + 16; ++row) {
    T* const c = p.C + (m + row) * p.ldc + n;
    const int skew = reinterpret_cast<uintptr_t>(c) % 4 / 2;  // elements before a whole word
    const auto staged = [&](int col) {
      return *reinterpret_cast<const T*>(sC + col / 64 * 8192 +
                                         swizzle(Swizzle::b128, row * 128 + col % 64 * 2));
    };
#pragma unroll
    for (int i = 0; i < COLS / 64 + 1; ++i) {
      const int col = i * 64 + lane * 2 - skew;  // may be -1, or the last one
      if (m + row >= p.M || col >= cols || (i == COLS / 64 && lane > 0)) continue;
      if (col >= 0 && col + 1 < cols) {
        const T pair[2] = {staged(col), staged(col + 1)};
        uint32_t word = 0;
        memcpy(&word, pair, 4);
        *reinterpret_cast<uint32_t*>(c + col) = word;
      } else if (col >= 0) {
        c[col] = staged(col);
      } else {
        c[0] = staged(0);
      }
    }
  }
}

GEMM_BUILD_NAMESPACE_END
