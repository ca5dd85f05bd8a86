// Tiles in registers: layouts, a computed tile, and sums and maxima along rows.
#pragma once

#include "tile/expression.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// A ROWS x COLS tile of which each warp has whole rows: warp w has rows w, w + WARPS, ... A thread's
// elements come in groups of VEC neighbours, and neighbouring lanes have neighbouring groups.
template <int ROWS, int COLS, int THREADS_ = 128, int VEC_ = 4>
struct Rows {
  static constexpr int THREADS = THREADS_, WARPS = THREADS / 32, VEC = VEC_;
  static constexpr int COUNT = ROWS / WARPS, PER_ROW = COLS / 32, SIZE = COUNT * PER_ROW;
  static_assert(ROWS % WARPS == 0 && COLS % (32 * VEC) == 0, "every thread has the same share");
  static GEMM_DEVICE int first_row() { return threadIdx.x / 32; }
  static GEMM_DEVICE int first_col() { return threadIdx.x % 32 * VEC; }
  static GEMM_DEVICE constexpr int row(int e) { return e / PER_ROW * WARPS; }
  static GEMM_DEVICE constexpr int col(int e) { return e % PER_ROW / VEC * (32 * VEC) + e % VEC; }
};

// One row of COLS elements, shared out among all threads.
template <int COLS, int THREADS_ = 128, int VEC_ = 4>
struct Line {
  static constexpr int THREADS = THREADS_, VEC = VEC_, SIZE = COLS / THREADS;
  static_assert(COLS % (THREADS * VEC) == 0, "every thread has the same share");
  static GEMM_DEVICE int first_row() { return 0; }
  static GEMM_DEVICE int first_col() { return threadIdx.x * VEC; }
  static GEMM_DEVICE constexpr int row(int) { return 0; }
  static GEMM_DEVICE constexpr int col(int e) { return e / VEC * (THREADS * VEC) + e % VEC; }
};

// A computed tile.
template <class T, class Layout_>
struct Registers : Stored {
  using Value = T;
  using Layout = Layout_;
  T x[Layout::SIZE];
  template <class Part>
  GEMM_DEVICE void get(const Part&, T (&y)[Part::COUNT]) const {
    static_assert(std::is_same_v<typename Part::Layout, Layout>, "tiles of one layout");
#pragma unroll
    for (int e = 0; e < Part::COUNT; ++e) y[e] = x[Part::FIRST + e];
  }
};
// Computes an expression once, for several uses.
template <class Layout, Tile E>
GEMM_DEVICE auto compute(const E& e) {
  Registers<typename E::Value, Layout> tile;
  e.get(Part<Layout, 0, Layout::SIZE>{Layout::first_row(), Layout::first_col()}, tile.x);
  return tile;
}

// A column: one value for each row of a tile, the same for all of the row's elements.
template <class T, class Layout>
struct Column : Stored {
  using Value = T;
  T x[Layout::COUNT];
  template <class Part>
  GEMM_DEVICE void get(const Part&, T (&y)[Part::COUNT]) const {
#pragma unroll
    for (int e = 0; e < Part::COUNT; ++e) y[e] = x[(Part::FIRST + e) / Layout::PER_ROW];
  }
};
// Combines each row's elements by f.
template <class T, class Layout, class F>
GEMM_DEVICE Column<T, Layout> reduce_rows(const Registers<T, Layout>& tile, F&& f) {
  Column<T, Layout> column;
#pragma unroll
  for (int r = 0; r < Layout::COUNT; ++r) {
    T all = tile.x[r * Layout::PER_ROW];
#pragma unroll
    for (int e = 1; e < Layout::PER_ROW; ++e) all = f(all, tile.x[r * Layout::PER_ROW + e]);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) all = f(all, __shfl_xor_sync(~0u, all, lanes));
    column.x[r] = all;
  }
  return column;
}
template <class T, class Layout>
GEMM_DEVICE auto max_of_rows(const Registers<T, Layout>& tile) {
  return reduce_rows(tile, [](T a, T b) { return a < b ? b : a; });
}
template <class T, class Layout>
GEMM_DEVICE auto sum_of_rows(const Registers<T, Layout>& tile) {
  return reduce_rows(tile, [](T a, T b) { return a + b; });
}

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
