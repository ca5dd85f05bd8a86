// The epilogue of a warpgroup's accumulators, whose layout device/ptx/wgmma.cuh has.
#pragma once

#include "device/epilogue.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/tma.cuh"
#include "device/tma.h"
#include "device/vec.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

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

// Four words of each of four neighbouring lanes, transposed: lane l's word w becomes lane w's l.
GEMM_DEVICE void transpose_words(uint32_t* words) {
  const bool upper = threadIdx.x & 2, odd = threadIdx.x & 1;
  uint32_t a = __shfl_xor_sync(~0u, upper ? words[0] : words[2], 2);
  uint32_t b = __shfl_xor_sync(~0u, upper ? words[1] : words[3], 2);
  (upper ? words[0] : words[2]) = a;
  (upper ? words[1] : words[3]) = b;
  a = __shfl_xor_sync(~0u, odd ? words[0] : words[1], 1);
  b = __shfl_xor_sync(~0u, odd ? words[2] : words[3], 1);
  (odd ? words[0] : words[1]) = a;
  (odd ? words[2] : words[3]) = b;
}

// C under COUNT of a thread's accumulators, in pairs and in their order; 0 outside the matrix. The
// first accumulator is at (row, col), as in store_accumulators. If ALIGNED (has_aligned_c) and
// elements have 2 bytes, four lanes read 64 bytes of a row at once, and then exchange what they
// read.
template <bool ALIGNED, int COUNT, class... T>
GEMM_DEVICE void load_pairs(const GemmArgs<T...>& p, int row, int col,
                            Pair<typename GemmArgs<T...>::TypeC> (&pairs)[COUNT / 2]) {
  using TC = typename GemmArgs<T...>::TypeC;
  if constexpr (ALIGNED && sizeof(TC) == 2) {
    static_assert(COUNT % 16 == 0, "32 columns at a time");
    const int first = col + threadIdx.x % 4 * 6;  // lane l: column 8 l, and not 2 l
#pragma unroll
    for (int i = 0; i < COUNT / 2; i += 4) {
      const int r = row + i / 4 % 2 * 8, c = first + i / 8 * 32;
      uint4 group = {};
      if (r < p.M && c < p.N) group = *reinterpret_cast<const uint4*>(p.C + r * p.ldc + c);
      pairs[i] = group.x;
      pairs[i + 1] = group.y;
      pairs[i + 2] = group.z;
      pairs[i + 3] = group.w;
    }
    uint32_t words[COUNT / 2];
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) words[i] = pairs[i];
#pragma unroll
    for (int i = 0; i < COUNT / 2; i += 4) {
      transpose_words(words + i);
#pragma unroll
      for (int w = 0; w < 4; ++w) pairs[i / 8 * 8 + w * 2 + i / 4 % 2] = words[i + w];
    }
  } else {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      const int r = row + i % 2 * 8, c = col + i / 2 * 8;
      pairs[i] = {};
      if (ALIGNED) {
        if (r < p.M && c < p.N) pairs[i] = *reinterpret_cast<const Pair<TC>*>(p.C + r * p.ldc + c);
      } else {
        TC was[2] = {TC(0.0f), TC(0.0f)};
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (r < p.M && c + e < p.N) was[e] = p.C[r * p.ldc + c + e];
        memcpy(&pairs[i], was, sizeof was);
      }
    }
  }
}

// alpha and beta of the epilogue, on accumulators and C's pairs.
template <class TC, int PAIRS>
GEMM_DEVICE void combine_pairs(const Epilogue& epilogue, float* acc,
                               const Pair<TC> (&pairs)[PAIRS]) {
#pragma unroll
  for (int i = 0; i < PAIRS; ++i) {
    float left, right;
    unpack<TC>(pairs[i], left, right);
    acc[2 * i] = epilogue.combine(acc[2 * i], left);
    acc[2 * i + 1] = epilogue.combine(acc[2 * i + 1], right);
  }
}

// The epilogue of the 64 x 2 COUNT / 2 tile at (m, n), in the accumulators. `aligned_c`:
// has_aligned_c. A thread has reads of C for AT_ONCE of them in flight: more take registers, fewer
// wait longer.
template <int AT_ONCE = 32, int COUNT, class... T>
GEMM_DEVICE void apply_epilogue(const GemmArgs<T...>& p, bool aligned_c, int m, int n,
                                float (&acc)[COUNT]) {
  if (p.epilogue.is_plain()) return;
  using TC = typename GemmArgs<T...>::TypeC;
  constexpr int STEP = sizeof(TC) == 4 ? 16 : AT_ONCE;
  static_assert(COUNT % STEP == 0, "whole steps");
  const int row = m + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; i += STEP) {
    Pair<TC> pairs[STEP / 2] = {};
    if (p.epilogue.reads_c()) {
      if (aligned_c)
        load_pairs<true, STEP>(p, row, col + i * 2, pairs);
      else
        load_pairs<false, STEP>(p, row, col + i * 2, pairs);
    }
    combine_pairs<TC>(p.epilogue, acc + i, pairs);
  }
  p.epilogue.activate(acc);
}

// Stores accumulators as they are: four lanes 64 bytes of an aligned row. Taught in v24.
template <int COUNT, class... T>
GEMM_DEVICE void store_pairs(const GemmArgs<T...>& p, bool aligned_c, int m, int n,
                             const float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  const int row = m + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < COUNT; i += 2) {
    const int r = row + i / 2 % 2 * 8, c = col + i / 4 * 8;
    const TC out[2] = {TC(acc[i]), TC(acc[i + 1])};
    if (aligned_c) {
      Pair<TC> pair{};
      memcpy(&pair, out, sizeof pair);
      if (r < p.M && c < p.N) *reinterpret_cast<Pair<TC>*>(p.C + r * p.ldc + c) = pair;
    } else {
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (r < p.M && c + e < p.N) p.C[r * p.ldc + c + e] = out[e];
    }
  }
}

// Stores accumulators after the epilogue. Taught in v18.
template <int COUNT, class... T>
GEMM_DEVICE void store_accumulators(const GemmArgs<T...>& p, bool aligned_c, int m, int n,
                                    float (&acc)[COUNT]) {
  apply_epilogue<16>(p, aligned_c, m, n, acc);
  store_pairs(p, aligned_c, m, n, acc);
}

// Finished accumulators where C's rows are 16-byte aligned: of 2-byte elements, 64 bytes of a row
// by four lanes. Taught in v27. MAY_BE_LOW: the tile may end long before the accumulators do. Then a
// branch every 64 columns skips the rest. Tiles that are never low lose time by it (plots/NOTES.md).
template <bool MAY_BE_LOW = false, int COUNT, class... T>
GEMM_DEVICE void store_accumulators_aligned(const GemmArgs<T...>& p, int m, int n,
                                            const float (&acc)[COUNT]) {
  using TC = typename GemmArgs<T...>::TypeC;
  const int lane = threadIdx.x % 32, row = m + threadIdx.x % 128 / 32 * 16 + lane / 4;
  const int col = n + lane % 4 * 8;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    TC* const c = p.C + (row + h * 8) * p.ldc + col;
#pragma unroll
    for (int i = 0; i < COUNT; i += 16) {  // 32 columns
      if (MAY_BE_LOW && i > 0 && i % 32 == 0 && n + i * 2 >= p.N) break;
      // Each of four lanes holds two columns of every 8; it exchanges them for 8 columns in a row.
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = pack_pair<TC>(acc[i + w * 4 + h * 2], acc[i + w * 4 + h * 2 + 1]);
      transpose_words(words);
      if (row + h * 8 < p.M && col + i * 2 < p.N)
        *reinterpret_cast<uint4*>(c + i * 2) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// The epilogue of C^T's accumulators, of the 2 COUNT / 2 x 64 tile of C at (m, n); C's rows are
// 16-byte aligned. Four lanes read 32 bytes of a row at once: store_transposed's way back. AT_ONCE as
// in apply_epilogue.
template <int AT_ONCE = 32, int COUNT, class... T>
GEMM_DEVICE void apply_epilogue_transposed(const GemmArgs<T...>& p, int m, int n,
                                           float (&acc)[COUNT]) {
  if (p.epilogue.is_plain()) return;
  using TC = typename GemmArgs<T...>::TypeC;
  constexpr int LOADS = AT_ONCE / 4;
  static_assert(COUNT % AT_ONCE == 0 && AT_ONCE % 4 == 0, "whole steps");
  const int lane = threadIdx.x % 32, odd = lane % 2;
  const int row = m + lane / 4;
  const int col = n + threadIdx.x % 128 / 32 * 16 + odd * 8 + lane % 4 / 2 * 4;
  const TC* c = p.C + row * p.ldc + col;
#pragma unroll
  for (int i = 0; i < COUNT; i += AT_ONCE) {
    uint2 words[LOADS] = {};
    if (p.epilogue.reads_c()) {
#pragma unroll
      for (int j = 0; j < LOADS; ++j, c += 8 * p.ldc)
        if (row + (i + j * 4) * 2 < p.M && col < p.N) words[j] = *reinterpret_cast<const uint2*>(c);
#pragma unroll
      for (int j = 0; j < LOADS; ++j) {
        const uint32_t other = __shfl_xor_sync(~0u, odd ? words[j].x : words[j].y, 1);
        const uint32_t left = odd ? other : words[j].x, right = odd ? words[j].y : other;
        words[j] = {movmatrix_trans(left), movmatrix_trans(right)};
      }
    }
    uint32_t pairs[AT_ONCE / 2];
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
      pairs[2 * j] = words[j].x;
      pairs[2 * j + 1] = words[j].y;
    }
    combine_pairs<TC>(p.epilogue, acc + i, pairs);
  }
  p.epilogue.activate(acc);
}

// Asks L2 for `rows` rows of C from (m, n) on, COLS wide, by a warpgroup, ahead of the epilogue and
// if that reads C: then its reads wait for L2 and not for memory. Where rows are not wide, nothing.
template <int COLS, class... T>
GEMM_DEVICE void prefetch_c(const GemmArgs<T...>& p, bool aligned_c, int m, int n, int rows) {
  if (!p.epilogue.reads_c() || !aligned_c || n >= p.N) return;
  const int cols = p.N - n < COLS ? p.N - n : COLS;
  const int end = p.M - m < rows ? p.M - m : rows;
  for (int row = threadIdx.x % 128; row < end; row += 128)
    bulk_prefetch(p.C + (m + row) * p.ldc + n, cols * sizeof(*p.C));
}

// Finished accumulators of 64 columns of C^T, as rows of C from (m, n) on: straight from the registers,
// 32 bytes of a row by four lanes. C's rows are 16-byte aligned. MAY_BE_LOW: likewise, for
// rows beyond M. Taught in v27.
template <bool MAY_BE_LOW = false, int COUNT, class... T>
GEMM_DEVICE void store_transposed(const GemmArgs<T...>& p, int m, int n,
                                  const float (&acc)[COUNT]) {
  const int lane = threadIdx.x % 32, odd = lane % 2;
  const int row = m + lane / 4;
  const int col = n + threadIdx.x % 128 / 32 * 16 + odd * 8 + lane % 4 / 2 * 4;
  using TC = typename GemmArgs<T...>::TypeC;
  TC* c = p.C + row * p.ldc + col;
#pragma unroll
  for (int i = 0; i < COUNT; i += 4, c += 8 * p.ldc) {  // 8 rows of 16 columns
    if (MAY_BE_LOW && i > 0 && i % 32 == 0 && m + i * 2 >= p.M) return;
    const uint32_t left = movmatrix_trans(pack_pair<TC>(acc[i], acc[i + 1]));
    const uint32_t right = movmatrix_trans(pack_pair<TC>(acc[i + 2], acc[i + 3]));
    const uint32_t other = __shfl_xor_sync(~0u, odd ? left : right, 1);  // the neighbour's half
    const uint2 words = {odd ? other : left, odd ? right : other};
    if (row + i * 2 < p.M && col < p.N) *reinterpret_cast<uint2*>(c) = words;
  }
}

// C's tensor map for tma_store, in boxes of `rows` x 64. Empty where C's rows are not 16-byte
// aligned.
template <class... T>
TensorMap c_map(const GemmArgs<T...>& p, int rows = 64, MatrixBatch batch = {}) {
  if constexpr (sizeof(*p.C) == 2)
    if (has_aligned_c(p))
      return tensor_map(p.C, p.M, p.N, p.ldc, rows, 64, Swizzle::b128, 256, batch);
  return {};
}

GEMM_BUILD_NAMESPACE_END
