// v2 block tiles: a block keeps a tile of A and a tile of B in shared memory.
//
// C = alpha * A * B + beta * C, row-major, any shape. In words: kernels/v02_block_tile.md.

constexpr int BM = 32, BN = 32;  // block tile: one thread per element
constexpr int BK = 32;           // depth of a k-tile
static_assert(BK == BN && BK == BM, "each thread copies one element of either tile");

// C is not read where beta is 0: it may hold NaN.
__device__ void store(float* c, float sum, float alpha, float beta) {
  *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

__global__ void __launch_bounds__(BM* BN)
    block_tile(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
               float beta, float* C, int ldc) {
  const int tiles_n = (N + BN - 1) / BN;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int row = blockIdx.x / tiles_n * BM + tm, col = blockIdx.x % tiles_n * BN + tn;
  __shared__ float sA[BM][BK], sB[BK][BN];

  float sum = 0;
  for (int k0 = 0; k0 < K; k0 += BK) {
    // Zeros, outside of the matrices, add nothing to a sum.
    const int col_a = k0 + tn, row_b = k0 + tm;
    sA[tm][tn] = row < M && col_a < K ? A[(size_t)row * lda + col_a] : 0;
    sB[tm][tn] = row_b < K && col < N ? B[(size_t)row_b * ldb + col] : 0;
    __syncthreads();  // nobody reads a tile before all of it is there
    for (int k = 0; k < BK; ++k) sum += sA[tm][k] * sB[k][tn];
    __syncthreads();  // nobody overwrites a tile that another thread still reads
  }
  if (row < M && col < N) store(&C[(size_t)row * ldc + col], sum, alpha, beta);
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  block_tile<<<blocks, dim3(BN, BM), 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

#include "../main.h"
