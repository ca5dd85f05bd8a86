// v18 pipeline: three buffers, so that k-tiles are on their way while one is multiplied.
//
// before: v17w has one buffer. A CTA requests a k-tile, waits a whole latency for it, multiplies,
//         and only then requests the next one. Its tensor cores idle in between.
// idea:   There are STAGES buffers, each with an mbarrier of its own. The loads of three k-tiles
//         are issued before the first wait. A buffer is refilled once it has been multiplied.
//         k-tile i uses stage i % STAGES. It completes phase i / STAGES of that stage's barrier.
// watch:  Up to 96 KB per CTA are in flight instead of 32. The wgmma and the registers are v17w's.
//         The price is 96 KB of shared memory: two CTAs fit on an SM instead of three.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
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

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles that are worked on together
constexpr int THREADS = 128;                            // one warpgroup

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {  // every panel starts at a multiple of 1024 bytes
  struct {
    uint8_t A[TileA::BYTES];  // (BM, BK)
    uint8_t B[TileB::BYTES];  // (BN / 64, BK, 64)
  } stages[STAGES];
  uint64_t full[STAGES];  // one mbarrier per stage: one arrival, and TMA's bytes
};

__global__ void __launch_bounds__(THREADS, 2)
    gemm_v18(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, k_tiles = cdiv(p.K, BK);
  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&s.full[stage], 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  // [region idea]
  const auto load = [&](int k_tile) {  // by one thread
    const int stage = k_tile % STAGES;
    uint64_t* const full = &s.full[stage];
    mbarrier_arrive_expect_tx(full, TileA::BYTES + TileB::BYTES);
    TileA::load(s.stages[stage].A, map_a, bm * BM, k_tile * BK, full);
    TileB::load(s.stages[stage].B, map_b, bn * BN, k_tile * BK, full);
  };
  float acc[BM / MMA_M][BN / 2] = {};
  if (tid == 0)
    for (int k_tile = 0; k_tile < STAGES && k_tile < k_tiles; ++k_tile) load(k_tile);
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const int stage = k_tile % STAGES, phase = k_tile / STAGES;
    mbarrier_wait(&s.full[stage], phase % 2);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
      for (int i = 0; i < BM / MMA_M; ++i)
        wgmma<half, BN, Major::K, Major::MN>(
            acc[i], TileA::descriptor(s.stages[stage].A, i * MMA_M) + k * TileA::K_STEP,
            TileB::descriptor(s.stages[stage].B) + k * TileB::K_STEP, true);
    wgmma_commit();
    wgmma_wait<0>();
    if (tid == 0 && k_tile + STAGES < k_tiles) load(k_tile + STAGES);  // into the stage just read
  }
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i) fence_operand(acc[i]);
    // [/region idea]

    // Epilogue.
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i)
    store_accumulators(p, aligned_c, bm * BM + i * MMA_M, bn * BN, acc[i]);
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v18, grid, dim3(THREADS), {.smem = sizeof(Shared)}, stream, p, has_aligned_c(p),
               TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld));
}

const Registration rung({.prev = "v17w",
                         .idea = "the pipeline: three stages, each with an mbarrier and its phase",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
