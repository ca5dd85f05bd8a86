// From global to shared memory past the registers, by cp.async: the tiles of tensor core rungs.
#pragma once

#include "device/fragments.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Starts the copy of a ROWS x COLS tile into rows of STRIDE elements, with zeros outside of the
// matrix. Complete after cp_async_wait and a barrier. If not ALIGNED (all_aligned), cp.async cannot
// be used: plain loads and stores. Taught in v12.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, int STRIDE, class T>
GEMM_DEVICE void copy_tile_async(T (&s)[ROWS][STRIDE], const T* g, int64_t ld, int rows, int cols,
                                 int tid) {
  constexpr int VEC = Vec<T>::SIZE, STEP = THREADS / (COLS / VEC);  // rows that are copied at once
  static_assert(ROWS % STEP == 0, "every thread copies the same number of groups");
  const int row = tid / (COLS / VEC), col = tid % (COLS / VEC) * VEC;
  const T* from = g + row * ld + col;
#pragma unroll(ALIGNED ? ROWS / STEP : 1)
  for (int r = 0; r < ROWS; r += STEP, from += STEP * ld) {
    if constexpr (ALIGNED)
      cp_async_16(&s[row + r][col], from, row + r < rows && col < cols ? 16 : 0);
    else
      store_vec(&s[row + r][col], load_group<false>(g, ld, row + r, col, rows, cols));
  }
}

// Starts the copy of a tile into its swizzled place, with zeros outside of the matrix. Complete
// after cp_async_wait and a barrier. If not ALIGNED, cp.async cannot be used: plain loads and
// stores. Taught in v16.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile_swizzled_async(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows,
                                          int cols, int tid) {
  constexpr int VEC = Vec<T>::SIZE, STEP = THREADS / (COLS / VEC);  // rows that are copied at once
  static_assert(ROWS % STEP == 0, "every thread copies the same number of groups");
  const int row = tid / (COLS / VEC), col = tid % (COLS / VEC) * VEC;
  const T* from = g + row * ld + col;
#pragma unroll(ALIGNED ? ROWS / STEP : 1)
  for (int r = 0; r < ROWS; r += STEP, from += STEP * ld) {
    T* to = swizzled(s, row + r, col);
    if constexpr (ALIGNED)
      cp_async_16(to, from, row + r < rows && col < cols ? 16 : 0);
    else
      store_vec(to, load_group<false>(g, ld, row + r, col, rows, cols));
  }
}

GEMM_BUILD_NAMESPACE_END
