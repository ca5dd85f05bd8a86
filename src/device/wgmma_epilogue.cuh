// From a warpgroup's accumulators to C (device/wgmma.cuh has their layout).
#pragma once

#include "device/epilogue.cuh"
#include "device/tma.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether the rows of C are whole aligned groups of 16 bytes: pairs can be stored at once, and TMA
// can store tiles.
template <class T>
bool has_wide_rows(const GemmArgs<T>& p) {
  return reinterpret_cast<uintptr_t>(p.C) % 16 == 0 && p.ldc % Vec<T>::SIZE == 0 &&
         p.N % Vec<T>::SIZE == 0;
}

// A word of two T, `lower` in its lower half.
template <class T>
GEMM_DEVICE uint32_t pack_pair(float lower, float upper) {
  uint32_t word = 0;
#if GEMM_ON_GPU
  if constexpr (std::is_same_v<T, half>) {
    const __half2 pair = __floats2half2_rn(lower, upper);
    memcpy(&word, &pair, 4);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(lower, upper);
    memcpy(&word, &pair, 4);
  }
#else
  const T pair[2] = {T(lower), T(upper)};
  memcpy(&word, pair, 4);
#endif
  return word;
}

// The 64 x 2 COUNT / 2 tile at (m, n), in pairs. Taught in v18.
template <class T, int COUNT>
GEMM_DEVICE void store_accumulators(const GemmArgs<T>& p, bool wide, int m, int n,
                                    const float (&acc)[COUNT]) {
  const int row = m + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; i += 2)
    if (wide)
      store_pair<true>(p, row + i / 2 % 2 * 8, col + i / 4 * 8, acc[i], acc[i + 1]);
    else
      store_pair<false>(p, row + i / 2 % 2 * 8, col + i / 4 * 8, acc[i], acc[i + 1]);
}

// acc = alpha * acc + beta * C, of the 64 x 2 COUNT / 2 tile at (m, n); of C^T's accumulators, of
// the 2 COUNT / 2 x 64 tile.
template <bool TRANSPOSED = false, class T, int COUNT>
GEMM_DEVICE void blend_accumulators(const GemmArgs<T>& p, int m, int n, float (&acc)[COUNT]) {
  const int row = (TRANSPOSED ? n : m) + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = (TRANSPOSED ? m : n) + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    acc[i] *= p.alpha;
    const int x = row + i / 2 % 2 * 8, y = col + i / 4 * 8 + i % 2;
    const int r = TRANSPOSED ? y : x, c = TRANSPOSED ? x : y;
    if (p.beta != 0 && r < p.M && c < p.N) acc[i] += p.beta * float(p.C[r * p.ldc + c]);
  }
}

// For tma_store of these panels, `rows` rows at once; where the rows of C are not whole groups of 16
// bytes, none.
template <class T>
TensorMap c_map(const GemmArgs<T>& p, int rows = 64) {
  return has_wide_rows(p) ? tensor_map(p.C, p.M, p.N, p.ldc, rows, 64, Swizzle::b128) : TensorMap{};
}

GEMM_BUILD_NAMESPACE_END
