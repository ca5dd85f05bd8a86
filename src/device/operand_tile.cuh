// An operand's tiles in shared memory, as TMA leaves them and wgmma reads them.
#pragma once

#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma.h"
#include "device/tma_operands.cuh"
#include "device/wgmma_descriptor.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// What tma_load and tma_store take: a matrix of a batch, or the map of a single one as it is.
template <bool BATCHED>
GEMM_DEVICE decltype(auto) matrix_of_batch(const TensorMap& map, int index) {
  if constexpr (BATCHED)
    return MatrixOfBatch{map, index};
  else
    return (map);
}

// A k-tile of one operand: MN rows of A or columns of B, 128 bytes deep: 64 of 16-bit elements, 128
// of FP8, which is K-major alone. It is made of panels whose rows are one swizzle span; of 16 bits:
//
//   K-major (A as stored, B transposed)      one panel, MN rows of 64 k
//   MN-major (A transposed, B as stored)     MN / 64 panels, each 64 rows (k) of 64 m or n;
//                                            where MN is 16 or 32, one panel of so many
//
// Taught in v17t.
template <class T, int MN, Major MAJOR>
struct OperandTile {
  static_assert(sizeof(T) == 2 || (sizeof(T) == 1 && MAJOR == Major::K),
                "tiles of f16, bf16 or, K-major, FP8");
  using Element = T;
  static constexpr int EXTENT = MN, DEPTH = 128 / int{sizeof(T)};
  static constexpr Major LAYOUT = MAJOR;
  static constexpr bool ALONG_K = MAJOR == Major::K;                            // rows of a panel
  static constexpr int WIDTH = MAJOR == Major::K ? DEPTH : MN >= 64 ? 64 : MN;  // of a panel
  static constexpr int ROW_BYTES = WIDTH * int{sizeof(T)};                      // of a panel
  static constexpr Swizzle MODE = static_cast<Swizzle>(ROW_BYTES);
  static constexpr int PANELS = MAJOR == Major::K ? 1 : cdiv(MN, WIDTH);
  static constexpr int PANEL_BYTES = ROW_BYTES * (MAJOR == Major::K ? MN : DEPTH);
  static constexpr int BYTES = PANELS * PANEL_BYTES;
  static constexpr int ROWS_64 = 64 * 64 * 2;  // bytes from 64 rows of A to the next 64, either way
  // What the next K step of wgmma adds to a descriptor.
  static constexpr int K_STEP = k_step_bytes<MAJOR, MODE>(PANEL_BYTES) >> 4;

  // Rows of a box where PARTS CTAs of a cluster load a tile together: of whole panels, or of a part
  // of each.
  template <int PARTS>
  static constexpr int ROWS = MAJOR == Major::K ? MN / PARTS
                              : PANELS % PARTS  ? DEPTH / PARTS
                                                : DEPTH;

  // The tensor map of an operand of mn x k, in boxes of one panel or of a part. `fetch` and `batch`
  // as tensor_map's.
  template <int PARTS = 1>
  static TensorMap map(const T* base, int mn, int k, int64_t ld, int fetch = 256,
                       MatrixBatch batch = {}) {
    if constexpr (MAJOR == Major::K)
      return tensor_map(base, mn, k, ld, ROWS<PARTS>, DEPTH, MODE, fetch, batch);
    else
      return tensor_map(base, k, mn, ld, ROWS<PARTS>, WIDTH, MODE, fetch, batch);
  }

  // Loads the tile at (mn, k), by one thread: BYTES bytes arrive at `full`. Map: TensorMap, or
  // MatrixOfBatch.
  template <class Map>
  static GEMM_DEVICE void load(uint8_t* tile, const Map& map, int mn, int k,
                               uint64_t* full GEMM_CALLER_ARG) {
    if constexpr (MAJOR == Major::K) {
      tma_load(tile, map, mn, k, full GEMM_CALLER_PASS);
    } else {
#pragma unroll
      for (int i = 0; i < PANELS; ++i)
        tma_load(tile + i * PANEL_BYTES, map, k, mn + i * WIDTH, full GEMM_CALLER_PASS);
    }
  }

  // Its descriptor for wgmma, from row `row` of A on (a multiple of 64). Taught in v17w.
  static GEMM_DEVICE uint64_t descriptor(const uint8_t* tile, int row = 0 GEMM_CALLER_ARG) {
    return wgmma_descriptor<MAJOR, MODE>(tile + row / 64 * ROWS_64, PANEL_BYTES GEMM_CALLER_PASS);
  }
};

// Issues the wgmma of a k-tile, as one group: BLOCKS x 64 rows of A from `row` on times N columns of
// B. Rows of `acc` may be longer than the N / 2 sums. Taught in v18.
template <class TileA, class TileB, int N = TileB::EXTENT, int BLOCKS, int COUNT>
GEMM_DEVICE void multiply_k_tile(float (&acc)[BLOCKS][COUNT], const uint8_t* sA, const uint8_t* sB,
                                 int row = 0 GEMM_CALLER_ARG) {
  using T = typename TileA::Element;
  constexpr int MMA_M = 64, MMA_K = 32 / sizeof(T);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < TileA::DEPTH / MMA_K; ++k)
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i)
      wgmma<T, N, TileA::LAYOUT, TileB::LAYOUT>(
          reinterpret_cast<float(&)[N / 2]>(acc[i]),
          TileA::descriptor(sA, row + i * MMA_M GEMM_CALLER_PASS) + k * TileA::K_STEP,
          TileB::descriptor(sB, 0 GEMM_CALLER_PASS) + k * TileB::K_STEP, true GEMM_CALLER_PASS);
  wgmma_commit();
}
// Multiplies a k-tile by one block of 64 rows.
template <class TileA, class TileB, int N = TileB::EXTENT, int COUNT>
GEMM_DEVICE void multiply_k_tile(float (&acc)[COUNT], const uint8_t* sA, const uint8_t* sB,
                                 int row = 0 GEMM_CALLER_ARG) {
  multiply_k_tile<TileA, TileB, N>(reinterpret_cast<float(&)[1][COUNT]>(acc), sA, sB,
                                   row GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
