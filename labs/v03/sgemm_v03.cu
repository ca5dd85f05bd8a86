// v3 thread tiles: one thread computes TM x TN elements of C.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v03_thread_tile.md.

constexpr int BM = 128, BN = 128, BK = 8;       // block tile, and depth of a k-tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 32 x 32

// C is not read where beta is 0: it may hold NaN.
__device__ void store(float* c, float sum, float alpha, float beta) {
  *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

__global__ void __launch_bounds__(THREADS)
    thread_tile(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                float beta, float* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tm = threadIdx.y, tn = threadIdx.x;
  __shared__ float sA[BM][BK], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    // Copies follow the compute mapping: the first BK columns and rows of threads take part.
    // Zeros, outside of the matrices, add nothing to a sum.
    const int col_a = k0 + tn, row_b = k0 + tm;
    for (int i = 0; i < TM; ++i) {
      const int row = m0 + tm * TM + i;
      if (tn < BK) sA[tm * TM + i][tn] = row < M && col_a < K ? A[(size_t)row * lda + col_a] : 0;
    }
    for (int j = 0; j < TN; ++j) {
      const int col = n0 + tn * TN + j;
      if (tm < BK) sB[tm][tn * TN + j] = row_b < K && col < N ? B[(size_t)row_b * ldb + col] : 0;
    }
    __syncthreads();
#pragma unroll
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
    for (int j = 0; j < TN; ++j) {
      const int row = m0 + tm * TM + i, col = n0 + tn * TN + j;
      if (row < M && col < N) store(&C[(size_t)row * ldc + col], acc[i][j], alpha, beta);
    }
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  thread_tile<<<blocks, dim3(BN / TN, BM / TM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta,
                                                             C, ldc);
}

#include "../main.h"
