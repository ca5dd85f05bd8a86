// v24 ping-pong: two consumers take turns, each on tiles of its own.
//
// C = alpha * A * B + beta * C in half, row-major, any shape; sums in float. nvcc -arch=sm_90a. In
// words: kernels/v24_pingpong.md.
#include "../hopper.h"

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 6;  // block tile, k-tiles in the pipeline
constexpr int THREADS = 3 * 128;                        // two consumers, then the producer
constexpr int PANEL = 64;                               // columns of a box: 128 bytes

struct Stage {  // panels begin at multiples of 1024 bytes
  half A[BM][PANEL];
  half B[BN / PANEL][BK][PANEL];
};
struct Shared {
  Stage stages[STAGES];
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// One thread requests a k-tile: A at (m0, k) and B at (k, n0). The barrier counts its bytes.
__device__ void load(Stage& stage, const TensorMap& map_a, const TensorMap& map_b, int m0, int n0,
                     int k, uint64_t* full) {
  mbarrier_arrive_expect_tx(full, sizeof stage);
  tma_load(stage.A, map_a, m0, k, full);
  for (int i = 0; i < BN / PANEL; ++i) tma_load(stage.B[i], map_b, k, n0 + i * PANEL, full);
}

// Where an operand of one wgmma lies, in units of 16 bytes. Bits 0 to 13: its first element. 16 to
// 29: to the next panel, for B alone. 32 to 45: to the next eight rows. 62: swizzled in 128 bytes.
__device__ uint64_t descriptor(const void* tile, int panel_bytes) {
  constexpr uint64_t EIGHT_ROWS = 8 * 128, SWIZZLE_128 = 1;
  return (tile_address(tile) >> 4 & 0x3FFF) | uint64_t(panel_bytes >> 4) << 16 |
         EIGHT_ROWS >> 4 << 32 | SWIZZLE_128 << 62;
}

// Issues the products of a k-tile.
__device__ void multiply(float (&acc)[BM / 64][64], const Stage& stage) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < BK; k += 16)  // 32 bytes of A's rows, 16 rows of B's panels
#pragma unroll
    for (int i = 0; i < BM / 64; ++i)
      wgmma(acc[i], descriptor(&stage.A[i * 64][k], 16),
            descriptor(&stage.B[0][k], sizeof stage.B[0]));
  wgmma_commit();
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

__global__ void __launch_bounds__(THREADS, 1)
    ping_pong(int M, int N, int K, float alpha, float beta, half* C, int ldc,
              const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b) {
  const int tiles_n = (N + BN - 1) / BN, k_tiles = (K + BK - 1) / BK;
  const int tiles = (M + BM - 1) / BM * tiles_n, tid = threadIdx.x, wg = tid / 128;
  extern __shared__ __align__(1024) unsigned char shared[];
  Shared& s = *(Shared*)shared;
  if (tid == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&s.full[stage], 1);   // the producer's arrival, and bytes
      mbarrier_init(&s.empty[stage], 1);  // the arrival of the consumer that has read it
    }
    for (uint64_t& order : s.order) mbarrier_init(&order, 4);  // of each warp of the other consumer
    fence_mbarrier_init();
  }
  __syncthreads();

  // k-tiles are counted over all tiles of the block: that is the order of the stages.
  if (wg == 2) {  // the producer
    setmaxnreg_dec<40>();
    if (tid % 128 != 0) return;
    for (int tile = blockIdx.x, i = 0; tile < tiles; tile += gridDim.x)
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ++i) {
        const int stage = i % STAGES, phase = i / STAGES;
        mbarrier_wait(&s.empty[stage], (phase ^ 1) % 2);
        load(s.stages[stage], map_a, map_b, tile / tiles_n * BM, tile % tiles_n * BN, k_tile * BK,
             &s.full[stage]);
      }
    return;
  }

  setmaxnreg_inc<232>();
  int turn = 0, i = wg * k_tiles;  // consumer 1 begins with the block's second tile
  for (int tile = blockIdx.x + wg * gridDim.x; tile < tiles; tile += 2 * gridDim.x, ++turn) {
    float acc[BM / 64][64] = {};
    // Its turn: the other one has issued its products. Nobody is before consumer 0's first turn.
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], (turn ^ wg ^ 1) % 2);
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, ++i) {
      const int stage = i % STAGES, phase = i / STAGES;
      mbarrier_wait(&s.full[stage], phase % 2);
      multiply(acc, s.stages[stage]);
      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(&s.order[wg ^ 1]);
      wgmma_wait<1>();  // the products of the k-tile before have ended: its stage is empty
      if (k_tile > 0 && tid % 128 == 0) mbarrier_arrive(&s.empty[(i - 1) % STAGES]);
    }
    wgmma_wait<0>();
    if (k_tiles > 0 && tid % 128 == 0) mbarrier_arrive(&s.empty[(i - 1) % STAGES]);
    i += k_tiles;  // the other one's tile
    const int m0 = tile / tiles_n * BM, n0 = tile % tiles_n * BN;
#pragma unroll
    for (int j = 0; j < BM / 64; ++j) {
      fence_operand(acc[j]);
      store(acc[j], m0 + j * 64, n0, M, N, alpha, beta, C, ldc);
    }
  }
}

void gemm(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
          float beta, half* C, int ldc, cudaStream_t stream) {
  const AlignedRows a(A, M, K, lda, stream), b(B, K, N, ldb, stream);
  int device = 0, sms = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const int tiles = ((M + BM - 1) / BM) * ((N + BN - 1) / BN), blocks = tiles < sms ? tiles : sms;
  cudaFuncSetAttribute(ping_pong, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  ping_pong<<<blocks, THREADS, sizeof(Shared), stream>>>(M, N, K, alpha, beta, C, ldc,
                                                         tensor_map(a.base, M, K, a.ld, BM),
                                                         tensor_map(b.base, K, N, b.ld, BK));
}

#include "../main.h"
