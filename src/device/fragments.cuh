// Fragments of mma.sync from swizzled tiles in shared memory. Taught in v15.
#pragma once

#include "device/ptx/ldmatrix.cuh"
#include "device/swizzle.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Element (row, col) of a tile kept as panels of up to 128 bytes a row, one below the other, in
// which the 16-byte chunk c of row r lies at chunk c ^ r (b128: of 8; b64: two rows share a line).
template <class T, int ROWS, int COLS>
GEMM_DEVICE T* swizzled(T (&tile)[ROWS][COLS], int row, int col) {
  constexpr int WIDTH = COLS * sizeof(T) < 128 ? COLS : 128 / sizeof(T);  // a panel's row
  constexpr auto MODE = static_cast<Swizzle>(WIDTH * sizeof(T));
  T* panel = &tile[0][0] + col / WIDTH * (ROWS * WIDTH);
  return panel + row * WIDTH + swizzled_column(MODE, row, col % WIDTH * sizeof(T)) / sizeof(T);
}

// A's fragment: rows row .. row + 15, 32 bytes along k. Lanes 0-15 name its left half's rows, 16-31
// its right half's: matrices 0 to 3 are a[0..3].
template <class T, int BM, int BK>
GEMM_DEVICE void load_a(uint32_t (&a)[4], T (&tile)[BM][BK], int row, int k) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(a, swizzled(tile, row + lane % 16, k + lane / 16 * (16 / int(sizeof(T)))));
}

// B's fragments of two mma side by side: k .. k + 15, columns col .. col + 15. Rows of B run along
// N, a fragment's words along K: hence .trans.
template <class T, int BK, int BN>
GEMM_DEVICE void load_b(uint32_t (&b)[2][2], T (&tile)[BK][BN], int k, int col) {
  const int lane = threadIdx.x % 32;
  uint32_t r[4];
  ldmatrix_x4_trans(r, swizzled(tile, k + lane % 16, col + lane / 16 * 8));
  b[0][0] = r[0];
  b[0][1] = r[1];
  b[1][0] = r[2];
  b[1][1] = r[3];
}

GEMM_BUILD_NAMESPACE_END
