// v5 float4: 128-bit loads and stores of global memory.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v05_float4.md.

constexpr int BM = 128, BN = 128, BK = 8;       // block tile, and depth of a k-tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

// Four neighbours of a row, zero outside of the matrix. WIDE: rows are whole aligned groups of
// four, each inside or outside, and one 128-bit load does it.
template <bool WIDE>
__device__ float4 load4(const float* g, int ld, int row, int col, int rows, int cols) {
  float4 v = {0, 0, 0, 0};
  if (row >= rows) return v;
  const float* from = g + (size_t)row * ld + col;
  if (WIDE) return col < cols ? *(const float4*)from : v;
  if (col < cols) v.x = from[0];
  if (col + 1 < cols) v.y = from[1];
  if (col + 2 < cols) v.z = from[2];
  if (col + 3 < cols) v.w = from[3];
  return v;
}

// Copies a tile whose first element is *g; `rows` and `cols` of the matrix are left from there.
template <bool WIDE, int ROWS, int COLS>
__device__ void copy_tile(float (&s)[ROWS][COLS], const float* g, int ld, int rows, int cols,
                          int tid) {
#pragma unroll
  for (int i = tid * 4; i < ROWS * COLS; i += THREADS * 4)
    *(float4*)&s[i / COLS][i % COLS] = load4<WIDE>(g, ld, i / COLS, i % COLS, rows, cols);
}

// C is not read where beta is 0: it may hold NaN.
__device__ float result(float sum, float alpha, float beta, const float* c) {
  return beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

// Four neighbours of a row of C, of which `left` are inside.
template <bool WIDE>
__device__ void store4(float* c, int left, const float* sum, float alpha, float beta) {
  if (left <= 0) return;
  if (WIDE) {
    const float4 was = beta == 0 ? float4{0, 0, 0, 0} : *(float4*)c;
    *(float4*)c = float4{result(sum[0], alpha, beta, &was.x), result(sum[1], alpha, beta, &was.y),
                         result(sum[2], alpha, beta, &was.z), result(sum[3], alpha, beta, &was.w)};
  } else {
    for (int e = 0; e < 4 && e < left; ++e) c[e] = result(sum[e], alpha, beta, &c[e]);
  }
}

template <bool WIDE>
__global__ void __launch_bounds__(THREADS, 2)
    wide_copy(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
              float beta, float* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;
  alignas(16) __shared__ float sA[BM][BK];
  alignas(16) __shared__ float sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    copy_tile<WIDE>(sA, A + k0 + (size_t)m0 * lda, lda, M - m0, K - k0, tid);
    copy_tile<WIDE>(sB, B + n0 + (size_t)k0 * ldb, ldb, K - k0, N - n0, tid);
    __syncthreads();
#pragma unroll 2  // fully unrolled it spills registers
    for (int k = 0; k < BK; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[tm * TM + i][k] * sB[k][tn * TN + j];
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TM; ++i)
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const int row = m0 + tm * TM + i, col = n0 + tn * TN + j;
      if (row < M) store4<WIDE>(&C[(size_t)row * ldc + col], N - col, &acc[i][j], alpha, beta);
    }
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  const bool wide = (N | K | lda | ldb | ldc) % 4 == 0 &&
                    ((size_t)A | (size_t)B | (size_t)C) % sizeof(float4) == 0;
  const auto kernel = wide ? wide_copy<true> : wide_copy<false>;
  kernel<<<blocks, dim3(BN / TN, BM / TM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C,
                                                        ldc);
}

#include "../main.h"
