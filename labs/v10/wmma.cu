// WMMA: the tensor cores in CUDA C++, without PTX. One warp computes 16 x 16 of C.
//
// C = alpha * A * B + beta * C in half, row-major, any shape; sums in float. For nvcc, sm_70 or
// later: the simulator has no nvcuda::wmma. In words: kernels/v10_mma.md.
#include <cuda_fp16.h>
#include <mma.h>

constexpr int TILE = 16;

__global__ void warp_product(int M, int N, int K, float alpha, const half* A, int lda,
                             const half* B, int ldb, float beta, half* C, int ldc) {
  const int tiles_n = (N + TILE - 1) / TILE;
  const int m0 = blockIdx.x / tiles_n * TILE, n0 = blockIdx.x % tiles_n * TILE;
  alignas(32) __shared__ half sA[TILE][TILE], sB[TILE][TILE];
  alignas(32) __shared__ float sC[TILE][TILE];

  // [region wmma]
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> left;
  fragment<matrix_b, 16, 16, 16, half, row_major> right;
  fragment<accumulator, 16, 16, 16, float> sums;
  fill_fragment(sums, 0.0f);
  for (int k0 = 0; k0 < K; k0 += TILE) {
    for (int i = threadIdx.x; i < TILE * TILE; i += 32) {  // zeros outside of the matrices
      const int row = i / TILE, col = i % TILE;
      const bool a = m0 + row < M && k0 + col < K, b = k0 + row < K && n0 + col < N;
      sA[row][col] = a ? A[(size_t)(m0 + row) * lda + k0 + col] : half(0);
      sB[row][col] = b ? B[(size_t)(k0 + row) * ldb + n0 + col] : half(0);
    }
    __syncwarp();
    load_matrix_sync(left, &sA[0][0], TILE);  // TILE elements from row to row
    load_matrix_sync(right, &sB[0][0], TILE);
    mma_sync(sums, left, right, sums);  // sums = left * right + sums
    __syncwarp();
  }
  store_matrix_sync(&sC[0][0], sums, TILE, mem_row_major);
  // [/region wmma]
  __syncwarp();

  for (int i = threadIdx.x; i < TILE * TILE; i += 32) {
    const int row = m0 + i / TILE, col = n0 + i % TILE;
    if (row >= M || col >= N) continue;
    const float sum = alpha * sC[i / TILE][i % TILE];
    half* const c = &C[(size_t)row * ldc + col];
    // C is not read where beta is 0: it may hold NaN.
    *c = half(beta == 0 ? sum : sum + beta * float(*c));
  }
}

void gemm(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
          float beta, half* C, int ldc, cudaStream_t stream) {
  const int warps = ((M + TILE - 1) / TILE) * ((N + TILE - 1) / TILE);
  warp_product<<<warps, 32, 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

#include "../main.h"
