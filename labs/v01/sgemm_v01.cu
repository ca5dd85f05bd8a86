// v1 naive: one thread computes one element of C.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v01_naive.md.

constexpr int BM = 32, BN = 32;  // block tile: one thread per element, one warp per row

// C is not read where beta is 0: it may hold NaN.
__device__ void store(float* c, float sum, float alpha, float beta) {
  *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

__global__ void __launch_bounds__(BM* BN)
    naive(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc) {
  // The grid is one-dimensional: block tiles row by row.
  const int tiles_n = (N + BN - 1) / BN;
  const int row = blockIdx.x / tiles_n * BM + threadIdx.y;
  const int col = blockIdx.x % tiles_n * BN + threadIdx.x;
  if (row >= M || col >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += A[(size_t)row * lda + k] * B[(size_t)k * ldb + col];
  store(&C[(size_t)row * ldc + col], sum, alpha, beta);
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  naive<<<blocks, dim3(BN, BM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

#include "../main.h"
