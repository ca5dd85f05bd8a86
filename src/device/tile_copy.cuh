// From global to shared memory: the cooperative copies that the rungs taught, one after the other.
// In all of them `g` points at the tile's first element, `rows` and `cols` say how much of the
// matrix is left from there (they may be <= 0), and what lies outside is zero: a zero adds nothing
// to a product, so ragged edges need no case of their own in the main loop.
#pragma once

#include "device/vec.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Element (row, col), or zero outside. Taught in v2.
template <class T>
GEMM_DEVICE T load_or_zero(const T* g, int64_t ld, int row, int col, int rows, int cols) {
  return row < rows && col < cols ? g[row * ld + col] : T(0.0f);
}

// A tile by THREADS threads, neighbours in `tid` on neighbouring elements of a row. Taught in v4.
template <int THREADS, int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows, int cols,
                           int tid) {
  static_assert(ROWS * COLS % THREADS == 0, "every thread copies the same number of elements");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / COLS, col = c % COLS;
    s[row][col] = load_or_zero(g, ld, row, col, rows, cols);
  }
}

// 16 bytes of `row` from `col` on, zero outside: one 128-bit load if ALIGNED (all_aligned: a group
// is wholly inside or wholly outside), else element by element. Taught in v5.
template <bool ALIGNED, class T>
GEMM_DEVICE Vec<T> load_group(const T* g, int64_t ld, int row, int col, int rows, int cols) {
  Vec<T> v = {};
  if constexpr (ALIGNED) {
    if (row < rows && col < cols) v = load_vec(g + row * ld + col);
  } else {
#pragma unroll
    for (int e = 0; e < Vec<T>::SIZE; ++e) v.set(e, load_or_zero(g, ld, row, col + e, rows, cols));
  }
  return v;
}

// A tile by 16-byte groups. Taught in v5.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile_by_groups(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows, int cols,
                                     int tid) {
  constexpr int VEC = Vec<T>::SIZE;
  static_assert(ROWS * COLS / VEC % THREADS == 0, "every thread copies the same number of groups");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / VEC / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / (COLS / VEC), col = c % (COLS / VEC) * VEC;
    store_vec(&s[row][col], load_group<ALIGNED>(g, ld, row, col, rows, cols));
  }
}

// A ROWS x COLS tile read by 16-byte groups along its rows and stored transposed, [COLS][ROWS +
// padding]. Taught in v6.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, int STRIDE, class T>
GEMM_DEVICE void copy_tile_transposed(T (&s)[COLS][STRIDE], const T* g, int64_t ld, int rows,
                                      int cols, int tid) {
  constexpr int VEC = Vec<T>::SIZE;
  static_assert(ROWS * COLS / VEC % THREADS == 0, "every thread copies the same number of groups");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / VEC / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / (COLS / VEC), col = c % (COLS / VEC) * VEC;
    const Vec<T> v = load_group<ALIGNED>(g, ld, row, col, rows, cols);
#pragma unroll
    for (int e = 0; e < VEC; ++e) s[col + e][row] = v[e];
  }
}

GEMM_BUILD_NAMESPACE_END
