// v18 wgmma: four warps multiply 64 x 128 x 16 in one instruction, from tiles that TMA copied.
//
// before: v17's warps issue copies, address arithmetic, ldmatrix and mma.sync, and mma.sync alone
//         stops at three quarters of what the tensor cores can do
// idea:   one thread asks TMA for a whole tile, which lands swizzled in shared memory and tells an
//         mbarrier; wgmma reads both operands from there, so that nothing passes through registers
//         but the accumulators
// watch:  instructions: a k-tile of 128 x 128 x 64 takes 8 wgmma and no ldmatrix; the tensor cores
//         still idle while a block waits for its k-tile, and the second block on the SM fills in
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;  // block tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles that are worked on together
constexpr int THREADS = 128;                            // one warpgroup
constexpr size_t SMEM = STAGES * ((BM + BN) * BK * 2 + 8);

template <class T, Major A_MAJOR, Major B_MAJOR>
__global__ void __launch_bounds__(THREADS, 2)
    gemm_v18(GemmArgs<T> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, k_tiles = cdiv(p.K, BK);

  // Tiles, and for each stage a barrier: one arrival, and TMA's bytes.
  auto* sA = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sB = sA + STAGES * TileA::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sB + STAGES * TileB::BYTES);
  if (tid == 0) {
    for (int s = 0; s < STAGES; ++s) mbarrier_init(&full[s], 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  // [region idea]
  const auto load = [&](int k_tile) {  // by one thread
    const int s = k_tile % STAGES;
    mbarrier_arrive_expect_tx(&full[s], TileA::BYTES + TileB::BYTES);
    TileA::load(sA + s * TileA::BYTES, map_a, bm * BM, k_tile * BK, &full[s]);
    TileB::load(sB + s * TileB::BYTES, map_b, bn * BN, k_tile * BK, &full[s]);
  };
  float acc[BM / MMA_M][BN / 2] = {};
  if (tid == 0)
    for (int k_tile = 0; k_tile < STAGES && k_tile < k_tiles; ++k_tile) load(k_tile);
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const int s = k_tile % STAGES;
    mbarrier_wait(&full[s], k_tile / STAGES % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
      for (int i = 0; i < BM / MMA_M; ++i)
        wgmma<T, BN, A_MAJOR, B_MAJOR>(
            acc[i], TileA::descriptor(sA + s * TileA::BYTES, i * MMA_M) + k * TileA::K_STEP,
            TileB::descriptor(sB + s * TileB::BYTES) + k * TileB::K_STEP, true);
    wgmma_commit();
    wgmma_wait<0>();
    if (tid == 0 && k_tile + STAGES < k_tiles) load(k_tile + STAGES);  // over the k-tile just read
  }
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i) fence_operand(acc[i]);
    // [/region idea]

    // Epilogue.
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i)
    store_accumulators(p, aligned_c, bm * BM + i * MMA_M, bn * BN, acc[i]);
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v18<T, a(), b()>, grid, dim3(THREADS), {.smem = SMEM}, stream, p,
                 has_aligned_c(p), OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::map(in.B.data, p.N, p.K, in.B.ld));
  });
}

const Registration rung({.prev = "v17",
                         .idea = "TMA and wgmma: tiles copied and multiplied asynchronously",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(launch<half>), bfloat16(launch<bf16>)});

}  // namespace
