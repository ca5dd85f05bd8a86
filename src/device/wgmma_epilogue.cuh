// The epilogue of a warpgroup's accumulators, whose layout device/ptx/wgmma.cuh has.
#pragma once

#include "device/epilogue.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/tma.cuh"
#include "device/tma.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether C's rows are 16-byte aligned, so that pairs can be stored at once and TMA can store
// tiles.
template <class T>
bool has_aligned_c(const GemmArgs<T>& p) {
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

// The 64 x 2 COUNT / 2 tile at (m, n), in pairs. Taught in v17w.
template <class T, int COUNT>
GEMM_DEVICE void store_accumulators(const GemmArgs<T>& p, bool aligned_c, int m, int n,
                                    const float (&acc)[COUNT]) {
  const int row = m + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; i += 2)
    if (aligned_c)
      store_pair<true>(p, row + i / 2 % 2 * 8, col + i / 4 * 8, acc[i], acc[i + 1]);
    else
      store_pair<false>(p, row + i / 2 % 2 * 8, col + i / 4 * 8, acc[i], acc[i + 1]);
}

// The same for aligned rows: four lanes store 64 bytes of a row. Taught in v24.
template <class T, int COUNT>
GEMM_DEVICE void store_accumulators_aligned(const GemmArgs<T>& p, int m, int n,
                                            const float (&acc)[COUNT]) {
  const int lane = threadIdx.x % 32, row = m + threadIdx.x % 128 / 32 * 16 + lane / 4;
  const int col = n + lane % 4 * 8;
  const bool upper = lane & 2, odd = lane & 1;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    T* const c = p.C + (row + h * 8) * p.ldc + col;
#pragma unroll
    for (int i = 0; i < COUNT; i += 16) {  // 32 columns
      // Each of four lanes holds two columns of every 8; it exchanges them for 8 columns in a row.
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = pack_pair<T>(acc[i + w * 4 + h * 2], acc[i + w * 4 + h * 2 + 1]);
      uint32_t a = __shfl_xor_sync(~0u, upper ? words[0] : words[2], 2);
      uint32_t b = __shfl_xor_sync(~0u, upper ? words[1] : words[3], 2);
      (upper ? words[0] : words[2]) = a;
      (upper ? words[1] : words[3]) = b;
      a = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);
      b = __shfl_xor_sync(~0u, odd ? words[2] : words[3], 1);
      (odd ? words[0] : words[1]) = a;
      (odd ? words[2] : words[3]) = b;
      if (row + h * 8 < p.M && col + i * 2 < p.N)
        *reinterpret_cast<uint4*>(c + i * 2) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// axpby: acc = alpha * acc + beta * C, for the tile of 64 x 2 COUNT at (m, n).
template <class T, int COUNT>
GEMM_DEVICE void axpby_accumulators(const GemmArgs<T>& p, int m, int n, float (&acc)[COUNT]) {
  const int row = m + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    acc[i] *= p.alpha;
    const int r = row + i / 2 % 2 * 8, c = col + i / 4 * 8 + i % 2;
    if (p.beta != 0 && r < p.M && c < p.N) acc[i] += p.beta * float(p.C[r * p.ldc + c]);
  }
}

// axpby for accumulators of C^T: the tile of 2 COUNT x 64 of C at (m, n). One pointer follows the
// rows; addresses computed for each element take two registers more than there are.
template <class T, int COUNT>
GEMM_DEVICE void axpby_transposed(const GemmArgs<T>& p, int m, int n, float (&acc)[COUNT]) {
  const int row = m + threadIdx.x % 4 * 2;
  const int col = n + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const T* c = p.C + row * p.ldc + col;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4, c += 8 * p.ldc)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      acc[i + j] *= p.alpha;
      const int below = j % 2, beside = j / 2 * 8;
      if (p.beta != 0 && row + i * 2 + below < p.M && col + beside < p.N)
        acc[i + j] += p.beta * float(c[below * p.ldc + beside]);
    }
}

// Transposes accumulators of C^T and stores them to C at (m, n), straight from registers. Four
// lanes store 32 bytes of a row. C's rows are 16-byte aligned. Taught in v27.
template <class T, int COUNT>
GEMM_DEVICE void store_transposed(const GemmArgs<T>& p, int m, int n, const float (&acc)[COUNT]) {
  const int lane = threadIdx.x % 32, odd = lane % 2;
  const int row = m + lane / 4;
  const int col = n + threadIdx.x % 128 / 32 * 16 + odd * 8 + lane % 4 / 2 * 4;
  T* c = p.C + row * p.ldc + col;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4, c += 8 * p.ldc) {  // 8 rows of 16 columns
    const uint32_t left = movmatrix_trans(pack_pair<T>(acc[i], acc[i + 1]));
    const uint32_t right = movmatrix_trans(pack_pair<T>(acc[i + 2], acc[i + 3]));
    const uint32_t other = __shfl_xor_sync(~0u, odd ? left : right, 1);  // the neighbour's half
    const uint2 words = {odd ? other : left, odd ? right : other};
    if (row + i * 2 < p.M && col < p.N) *reinterpret_cast<uint2*>(c) = words;
  }
}

// C's tensor map for tma_store, in boxes of `rows` x 64. Empty where C's rows are not 16-byte
// aligned.
template <class T>
TensorMap c_map(const GemmArgs<T>& p, int rows = 64) {
  return has_aligned_c(p) ? tensor_map(p.C, p.M, p.N, p.ldc, rows, 64, Swizzle::b128) : TensorMap{};
}

GEMM_BUILD_NAMESPACE_END
