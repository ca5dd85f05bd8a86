// v17t TMA: one thread requests a whole k-tile, and an mbarrier tells when its bytes have come.
//
// C = alpha * A * B + beta * C in half, row-major, any shape; sums in float. nvcc -arch=sm_90a. In
// words: kernels/v17t_tma.md.
#include "../hopper.h"

constexpr int BM = 128, BN = 128, BK = 64;           // block tile, and depth of a k-tile
constexpr int WM = 64, WN = 32;                      // warp tile
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 2 x 4 warps
constexpr int PANEL = 64;                            // columns of a box: 128 bytes

struct Shared {  // panels begin at multiples of 1024 bytes
  half A[BM][PANEL];
  half B[BN / PANEL][BK][PANEL];
  uint64_t full;  // the mbarrier
};

// d += a * b by the whole warp, as in v10.
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Element (row, col) of a panel, where TMA's swizzle has put it.
__device__ const half* swizzled(const half (*panel)[PANEL], int row, int col) {
  return &panel[row][(col / 8 ^ row % 8) * 8 + col % 8];
}

__global__ void __launch_bounds__(THREADS, 2)
    tma(int M, int N, int K, float alpha, float beta, half* C, int ldc,
        const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b) {
  const int tiles_n = (N + BN - 1) / BN, k_tiles = (K + BK - 1) / BK;
  const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, g = lane / 4, t = lane % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  extern __shared__ __align__(1024) unsigned char shared[];
  Shared& s = *(Shared*)shared;
  if (tid == 0) {
    mbarrier_init(&s.full, 1);  // one arrival per phase, thread 0's
    fence_mbarrier_init();
  }
  __syncthreads();

  float acc[WM / 16][WN / 8][4] = {};
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    if (tid == 0) {
      mbarrier_arrive_expect_tx(&s.full, sizeof s.A + sizeof s.B);
      tma_load(s.A, map_a, m0, k_tile * BK, &s.full);
      for (int i = 0; i < BN / PANEL; ++i)
        tma_load(s.B[i], map_b, k_tile * BK, n0 + i * PANEL, &s.full);
    }
    mbarrier_wait(&s.full, k_tile % 2);  // k-tile i completes phase i
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      uint32_t rA[WM / 16][4], rB[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
        ldmatrix_x4(rA[i], swizzled(s.A, wm + i * 16 + lane % 16, k + lane / 16 * 8));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j)  // two mma's operands
        ldmatrix_x4_trans(
            rB[j], swizzled(s.B[wn / PANEL], k + lane % 16, wn % PANEL + j * 16 + lane / 16 * 8));
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) mma(acc[i][j], rA[i], &rB[j / 2][j % 2 * 2]);
    }
    __syncthreads();  // all warps have read the k-tile: TMA may write over it
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
  const AlignedRows a(A, M, K, lda, stream), b(B, K, N, ldb, stream);
  const int blocks = ((M + BM - 1) / BM) * ((N + BN - 1) / BN);
  cudaFuncSetAttribute(tma, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  tma<<<blocks, THREADS, sizeof(Shared), stream>>>(M, N, K, alpha, beta, C, ldc,
                                                   tensor_map(a.base, M, K, a.ld, BM),
                                                   tensor_map(b.base, K, N, b.ld, BK));
}

#include "../main.h"
