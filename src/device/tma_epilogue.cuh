// The epilogue through shared memory and TMA stores. Taught in v23.
#pragma once

#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/swizzle.cuh"
#include "device/tma.h"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Writes 64 x 64 accumulators, as T, to a panel in shared memory, swizzled as TMA wants it. By a
// warpgroup: each warp has 16 rows.
template <class T>
GEMM_DEVICE void stage_panel(uint8_t* sC, const float* acc) {
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {  // 16 columns: four 8 x 8 matrices
    uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = pack_pair<T>(acc[i + 2 * w], acc[i + 2 * w + 1]);
    stmatrix(sC + swizzle(Swizzle::b128, row * 128 + (i / 4 + half) * 16), words);
  }
}

// Stores rows `first` to before `end` of a panel to C at (m, n), by a warp, without TMA. For C
// whose rows are not 16-byte aligned: neighbouring lanes store neighbouring 4-byte words. A word of
// C may straddle two words of the panel, so its elements are read one by one; where C's words begin
// at odd elements, lane 0 has the row's two ends. The loop is short and has no branches: at 4097 a
// body of four rows, 5 KB of instructions, took 12 % of the kernel's time to fetch.
template <class... Types>
GEMM_DEVICE void store_panel_rows(const GemmArgs<Types...>& p, int m, int n, const uint8_t* sC,
                                  int first, int end) {
  using T = typename GemmArgs<Types...>::TypeC;
  const int lane = threadIdx.x % 32;
  const int cols = p.N - n < 64 ? p.N - n : 64, rows = p.M - m < end ? p.M - m : end;
#pragma unroll 1
  for (int row = first; row < rows; ++row) {
    T* const c = p.C + (m + row) * p.ldc + n;
    const int skew = reinterpret_cast<uintptr_t>(c) % 4 / 2;  // elements before a whole word
    const int col = (lane * 2 - skew) & 63, next = (col + 1) & 63;
    const auto at = [&](int i) { return sC + swizzle(Swizzle::b128, row * 128 + i * 2); };
    const T pair[2] = {*reinterpret_cast<const T*>(at(col)), *reinterpret_cast<const T*>(at(next))};
    uint32_t word = 0;
    memcpy(&word, pair, 4);
    const bool whole = next > col && next < cols;
    if (whole) *reinterpret_cast<uint32_t*>(c + col) = word;
    if (!whole && col < cols) c[col] = pair[0];
    if (next == 0 && cols > 0) c[0] = pair[1];
  }
}

// Stores a 64 x 64 panel to C at (m, n) through the epilogue stage `sC`, by a warpgroup. Each warp
// stores its own 16 rows, and so waits for no other warp. PENDING earlier stores of the warp may
// still read their own stages. Boxes of map_c are 16 x 64. Taught in v24.
template <int PENDING, class Map, class... T>
GEMM_DEVICE void store_panel(const GemmArgs<T...>& p, bool aligned_c, const Map& map_c, int m,
                             int n, uint8_t* sC, const float* acc) {
  const int row = threadIdx.x % 128 / 32 * 16;
  const bool leader = threadIdx.x % 32 == 0;
  if (leader) tma_store_wait_read<PENDING>();
  __syncwarp();  // TMA has read what the warp wrote there before
  stage_panel<typename GemmArgs<T...>::TypeC>(sC, acc);
  fence_proxy_async();
  __syncwarp();  // all lanes have written
  if (!aligned_c) store_panel_rows(p, m, n, sC, row, row + 16);
  if (aligned_c && leader) {
    if (m + row < p.M && n < p.N) tma_store(map_c, m + row, n, sC + row * 128);
    tma_store_commit();
  }
}

// Stores 64 rows of accumulators to C at (m, n), by a warpgroup: panel after panel, in the epilogue
// stages by turns. It is the `nth` call for this tile. Taught in v24.
template <int EPILOGUE_STAGES, int COUNT, class Map, class... T>
GEMM_DEVICE void store_panels(const GemmArgs<T...>& p, bool aligned_c, const Map& map_c, int m,
                              int n, uint8_t (&stages)[EPILOGUE_STAGES][8192], int nth,
                              const float (&acc)[COUNT]) {
  constexpr int PANELS = COUNT / 32;
#pragma unroll
  for (int c = 0; c < PANELS; ++c)
    store_panel<EPILOGUE_STAGES - 1>(p, aligned_c, map_c, m, n + c * 64,
                                     stages[(nth * PANELS + c) % EPILOGUE_STAGES], &acc[c * 32]);
}

// Transposes accumulators of C^T and stores them to C at (m, n), through epilogue stages. By a
// warpgroup: 64 columns of C, rows m to before p.M, in panels of 64 rows. AT_ONCE panels are stored
// behind one fence, in the epilogue stages by turns; it is the `nth` call for these rows. A
// warp has 16 of the columns, so all four wait for each other before they store. C's rows are
// 16-byte aligned; boxes of map_c are 8 x 64. Taught in v27.
template <int AT_ONCE = 1, int EPILOGUE_STAGES, int COUNT, class... T>
GEMM_DEVICE void store_panels_transposed(const GemmArgs<T...>& p, const TensorMap& map_c, int m,
                                         int n, uint8_t (&stages)[EPILOGUE_STAGES][8192], int nth,
                                         const float (&acc)[COUNT]) {
  static_assert(EPILOGUE_STAGES % AT_ONCE == 0, "no panel is in two turns");
  constexpr int ROWS = AT_ONCE * 64;
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const auto sync = [] { named_barrier_sync(1 + threadIdx.x / 128, 128); };
  int nth_store = nth * cdiv(p.M - m, ROWS);
#pragma unroll
  for (int r = 0; r < COUNT * 2; r += ROWS, ++nth_store) {
    if (r > 0 && m + r >= p.M) break;
    uint8_t* const panels = stages[nth_store % (EPILOGUE_STAGES / AT_ONCE) * AT_ONCE];
    if (lane == 0) tma_store_wait_read<EPILOGUE_STAGES / AT_ONCE - 1>();
    sync();  // TMA has read what the warpgroup wrote there before
#pragma unroll
    for (int i = 0; i < ROWS && r + i < COUNT * 2; i += 16) {  // rows: four 8 x 8 matrices
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* const pair = acc + (r + i) / 2 + 2 * w;
        words[w] = pack_pair<typename GemmArgs<T...>::TypeC>(pair[0], pair[1]);
      }
      const int row = i + lane / 16 * 8 + lane % 8, col = warp * 16 + lane / 8 % 2 * 8;
      stmatrix_trans(panels + swizzle(Swizzle::b128, row * 128 + col * 2), words);
    }
    fence_proxy_async();
    sync();  // all have written
    if (lane == 0) {
      const int first = warp * (ROWS / 4), end = first + ROWS / 4;
      for (int row = first; row < end && m + r + row < p.M && n < p.N; row += 8)
        tma_store(map_c, m + r + row, n, panels + row * 128);
      tma_store_commit();
    }
  }
}

GEMM_BUILD_NAMESPACE_END
