// v10 tensor cores: one mma.sync computes a 16 x 8 tile of C with a whole warp.
//
// C = alpha * A * B + beta * C in half, row-major, any shape; sums in float. nvcc -arch=native: it
// needs sm_80 or later. In words: kernels/v10_mma.md.
#include <cuda_fp16.h>

#include <cstdint>

constexpr int BM = 128, BN = 128, BK = 32;           // block tile, and depth of a k-tile
constexpr int WORDS = BK / 2;                        // a word: two halves of consecutive k
constexpr int WM = 64, WN = 32;                      // warp tile
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 2 x 4 warps
constexpr int SA = WORDS + 4, SB = BN + 8;  // row strides: g * SA + t and t * SB + g hit 32 banks

// d += a * b by the whole warp. Lane 4 * g + t holds, in words,
//   a: A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4)        b: B(t, g), B(t + 4, g)
// and of the sums
//   d: D(g, 2t), D(g, 2t + 1), D(g + 8, 2t), D(g + 8, 2t + 1)
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Eight neighbours of a row, zero outside of the matrix. WIDE: rows are whole aligned groups of
// eight, each inside or outside, and one 128-bit load does it.
template <bool WIDE>
__device__ uint4 load8(const half* g, int ld, int row, int col, int rows, int cols) {
  const half* from = g + (size_t)row * ld + col;
  uint4 v = {0, 0, 0, 0};
  if (WIDE) {
    if (row < rows && col < cols) v = *(const uint4*)from;
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (row < rows && col + e < cols) ((half*)&v)[e] = from[e];
  }
  return v;
}

// Words of two halves, one of `upper` row k and one of `lower` row k + 1: columns 2n and 2n + 1.
__device__ uint2 pair(uint32_t upper, uint32_t lower) {
  return {(upper & 0xffff) | lower << 16, upper >> 16 | (lower & 0xffff0000)};
}

template <bool WIDE>
__global__ void __launch_bounds__(THREADS, 2)
    tensor_cores(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
                 float beta, half* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  alignas(16) __shared__ uint32_t sA[2][BM][SA];
  alignas(16) __shared__ uint32_t sB[2][WORDS][SB];

  const int rowA = tid / 4, wordA = tid % 4 * 4, wordB = tid / 16, colB = tid % 16 * 8;
  uint4 nextA[2], nextB[2];  // the k-tile on its way: rows rowA and rowA + 64, rows of k in a word
  const auto fetch = [&](int k0) {
    for (int i = 0; i < 2; ++i) {
      nextA[i] = load8<WIDE>(A, lda, m0 + rowA + i * BM / 2, k0 + wordA * 2, M, K);
      nextB[i] = load8<WIDE>(B, ldb, k0 + wordB * 2 + i, n0 + colB, K, N);
    }
  };
  const auto commit = [&](int stage) {
    for (int i = 0; i < 2; ++i) *(uint4*)&sA[stage][rowA + i * BM / 2][wordA] = nextA[i];
    const uint2 x = pair(nextB[0].x, nextB[1].x), y = pair(nextB[0].y, nextB[1].y);
    const uint2 z = pair(nextB[0].z, nextB[1].z), w = pair(nextB[0].w, nextB[1].w);
    *(uint4*)&sB[stage][wordB][colB] = uint4{x.x, x.y, y.x, y.y};
    *(uint4*)&sB[stage][wordB][colB + 4] = uint4{z.x, z.y, w.x, w.y};
  };

  float acc[WM / 16][WN / 8][4] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage ^= 1) {
    const bool more = k0 + BK < K;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < WORDS; k += 8) {
      uint32_t rA[WM / 16][4], rB[WN / 8][2];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          rA[i][r] = sA[stage][wm + i * 16 + g + r % 2 * 8][k + t + r / 2 * 4];
#pragma unroll
      for (int j = 0; j < WN / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) rB[j][r] = sB[stage][k + t + r * 4][wn + j * 8 + g];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) mma(acc[i][j], rA[i], rB[j]);
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = m0 + wm + i * 16 + g + r / 2 * 8, col = n0 + wn + j * 8 + 2 * t + r % 2;
        if (row >= M || col >= N) continue;
        half* const c = &C[(size_t)row * ldc + col];
        // C is not read where beta is 0: it may hold NaN.
        *c = half(beta == 0 ? alpha * acc[i][j][r] : alpha * acc[i][j][r] + beta * float(*c));
      }
}

void gemm(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
          float beta, half* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const bool wide = (N | K | lda | ldb) % 8 == 0 && ((size_t)A | (size_t)B) % sizeof(uint4) == 0;
  const auto kernel = wide ? tensor_cores<true> : tensor_cores<false>;
  kernel<<<blocks, THREADS, 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

#include "../main.h"
