// A student's kernel: 32 x 32 tiles in shared memory, every shape, the whole signature.
#include <cuda_runtime.h>

#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

template <int BLOCK>
__global__ void tiled(int M, int N, int K, float alpha, const float* A, int lda, const float* B,
                      int ldb, float beta, float* C, int ldc) {
  __shared__ float sA[BLOCK][BLOCK], sB[BLOCK][BLOCK];
  const int col = blockIdx.x * BLOCK + threadIdx.x, row = blockIdx.y * BLOCK + threadIdx.y;
  float sum = 0;
  for (int k0 = 0; k0 < K; k0 += BLOCK) {
    const int ka = k0 + threadIdx.x, kb = k0 + threadIdx.y;
    sA[threadIdx.y][threadIdx.x] = row < M && ka < K ? A[(size_t)row * lda + ka] : 0;
    sB[threadIdx.y][threadIdx.x] = kb < K && col < N ? B[(size_t)kb * ldb + col] : 0;
    __syncthreads();
    for (int k = 0; k < BLOCK; ++k) sum += sA[threadIdx.y][k] * sB[k][threadIdx.x];
    __syncthreads();
  }
  if (row >= M || col >= N) return;
  float* c = &C[(size_t)row * ldc + col];
  *c = beta == 0 ? alpha * sum : alpha * sum + beta * *c;
}

void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
          float beta, float* C, int ldc, cudaStream_t stream) {
  dim3 gridDim(CEIL_DIV(N, 32), CEIL_DIV(M, 32));
  dim3 blockDim(32, 32);
  tiled<32><<<gridDim, blockDim, 0, stream>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
