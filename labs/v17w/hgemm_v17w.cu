// v17w wgmma: four warps multiply 64 x 128 x 16 in one instruction, from shared memory.
//
// C = alpha * A * B + beta * C in half, row-major, any shape; sums in float. nvcc -arch=sm_90a. In
// words: kernels/v17w_wgmma.md.
#include "../hopper.h"

constexpr int BM = 128, BN = 128, BK = 64;  // block tile, and depth of a k-tile
constexpr int THREADS = 128;                // one warpgroup
constexpr int PANEL = 64;                   // columns of a box: 128 bytes

struct Shared {  // panels begin at multiples of 1024 bytes
  half A[BM][PANEL];
  half B[BN / PANEL][BK][PANEL];
  uint64_t full;  // the mbarrier
};

// Where an operand of one wgmma lies, in units of 16 bytes. Bits 0 to 13: its first element. 16 to
// 29: to the next panel, for B alone. 32 to 45: to the next eight rows. 62: swizzled in 128 bytes.
__device__ uint64_t descriptor(const void* tile, int panel_bytes) {
  constexpr uint64_t EIGHT_ROWS = 8 * 128, SWIZZLE_128 = 1;
  return (tile_address(tile) >> 4 & 0x3FFF) | uint64_t(panel_bytes >> 4) << 16 |
         EIGHT_ROWS >> 4 << 32 | SWIZZLE_128 << 62;
}

// Thread 32 w + 4 g + t stores its 64 sums of 64 x 128 of C, as wgmma leaves them.
__device__ void store(const float (&acc)[64], int m0, int n0, int M, int N, float alpha, float beta,
                      half* C, int ldc) {
  const int row = m0 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  const int col = n0 + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int m = row + i / 2 % 2 * 8, n = col + i / 4 * 8 + i % 2;
    if (m >= M || n >= N) continue;
    half* const c = &C[(size_t)m * ldc + n];
    // C is not read where beta is 0: it may hold NaN.
    *c = half(beta == 0 ? alpha * acc[i] : alpha * acc[i] + beta * float(*c));
  }
}

__global__ void __launch_bounds__(THREADS, 2)
    warpgroup_products(int M, int N, int K, float alpha, float beta, half* C, int ldc,
                       const __grid_constant__ TensorMap map_a,
                       const __grid_constant__ TensorMap map_b) {
  const int tiles_n = (N + BN - 1) / BN, k_tiles = (K + BK - 1) / BK;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN, tid = threadIdx.x;
  extern __shared__ __align__(1024) unsigned char shared[];
  Shared& s = *(Shared*)shared;
  if (tid == 0) {
    mbarrier_init(&s.full, 1);  // one arrival per phase, thread 0's
    fence_mbarrier_init();
  }
  __syncthreads();

  float acc[BM / 64][64] = {};  // a thread's part of 64 x 128 of C, twice
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    if (tid == 0) {
      mbarrier_arrive_expect_tx(&s.full, sizeof s.A + sizeof s.B);
      tma_load(s.A, map_a, m0, k_tile * BK, &s.full);
      for (int i = 0; i < BN / PANEL; ++i)
        tma_load(s.B[i], map_b, k_tile * BK, n0 + i * PANEL, &s.full);
    }
    mbarrier_wait(&s.full, k_tile % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += 16)  // 32 bytes of A's rows, 16 rows of B's panels
#pragma unroll
      for (int i = 0; i < BM / 64; ++i)
        wgmma(acc[i], descriptor(&s.A[i * 64][k], 16), descriptor(&s.B[0][k], sizeof s.B[0]));
    wgmma_commit();
    wgmma_wait<0>();  // all of the warpgroup have read the k-tile: TMA may write over it
  }
#pragma unroll
  for (int i = 0; i < BM / 64; ++i) {
    fence_operand(acc[i]);
    store(acc[i], m0 + i * 64, n0, M, N, alpha, beta, C, ldc);
  }
}

void gemm(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
          float beta, half* C, int ldc, cudaStream_t stream) {
  const AlignedRows a(A, M, K, lda, stream), b(B, K, N, ldb, stream);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  cudaFuncSetAttribute(warpgroup_products, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       sizeof(Shared));
  warpgroup_products<<<blocks, THREADS, sizeof(Shared), stream>>>(
      M, N, K, alpha, beta, C, ldc, tensor_map(a.base, M, K, a.ld, BM),
      tensor_map(b.base, K, N, b.ld, BK));
}

#include "../main.h"
