// v19 warp specialisation: one warp only loads, four only multiply.
//
// before: In v18 the thread that loads is one of those that multiply. It refills a buffer only
//         after all four warps have waited for their wgmma, and the tensor cores are empty by then.
// idea:   A producer warp walks ahead through a pipeline of buffers, and a consumer warpgroup
//         follows. Two barriers per stage, full and empty, are all that they know of each other.
// watch:  The consumer issues the wgmma of k-tile i, and then waits for those of k-tile i - 1. So
//         the tensor cores always have work. The price is a fifth warp, which mostly sleeps.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
//
//   role        threads   waits for       then                       and tells
//   producer    one       empty[stage]    loads a k-tile of A and B  full[stage], by TMA's bytes
//   consumer    128       full[stage]     8 wgmma                    empty[stage], one k-tile later
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival, the consumer's
//
//   producer    | load k-tile 0 | load 1 | load 2 | wait | load 3 | wait | load 4 ...
//   consumer                    | wgmma 0 | wgmma 1 ...  | wgmma 2 ...   | wgmma 3 ...
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 3;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles that are worked on together
constexpr int CONSUMERS = 128, THREADS = CONSUMERS + 32;  // a warpgroup, and the producer's warp

// [region idea]
// One side's position in the pipeline: its stage, and the phase's parity. Consumers wait on full[]
// for `phase`, the producer on empty[] for phase ^ 1. A fresh barrier counts as having completed a
// phase of parity 1, so the producer does not wait for the first STAGES k-tiles.
template <int STAGES>
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;
  GEMM_DEVICE void advance() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Initialises the barriers: by one thread, before a barrier of the CTA.
template <int STAGES>
GEMM_DEVICE void init_pipeline(uint64_t* full, uint64_t* empty, int consumers) {
  for (int s = 0; s < STAGES; ++s) {
    mbarrier_init(&full[s], 1);
    mbarrier_init(&empty[s], consumers);
  }
  fence_mbarrier_init();
}
// [/region idea]

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {  // every panel starts at a multiple of 1024 bytes
  struct {
    uint8_t A[TileA::BYTES];  // (BM, BK)
    uint8_t B[TileB::BYTES];  // (BN / 64, BK, 64)
  } stages[STAGES];
  uint64_t full[STAGES], empty[STAGES];
};

__global__ void __launch_bounds__(THREADS, 2)
    gemm_v19(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, k_tiles = cdiv(p.K, BK);

  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, 1);
  __syncthreads();

  PipelineState<STAGES> state;
  // [region roles]
  if (tid >= CONSUMERS) {
    // The producer.
    if (!elect_one()) return;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const int stage = state.stage;
      uint64_t* const full = &s.full[stage];
      mbarrier_wait(&s.empty[stage], state.phase ^ 1);
      mbarrier_arrive_expect_tx(full, TileA::BYTES + TileB::BYTES);
      TileA::load(s.stages[stage].A, map_a, bm * BM, k_tile * BK, full);
      TileB::load(s.stages[stage].B, map_b, bn * BN, k_tile * BK, full);
    }
    return;
  }

  // The consumer. It issues the wgmma of a k-tile and waits until those of the k-tile before have
  // ended. Then it releases that k-tile's stage, which is `last`.
  float acc[BM / MMA_M][BN / 2] = {};
  for (int k_tile = 0, last = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
    const int stage = state.stage;
    mbarrier_wait(&s.full[stage], state.phase);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
      for (int i = 0; i < BM / MMA_M; ++i)
        wgmma<half, BN, Major::K, Major::MN>(
            acc[i], TileA::descriptor(s.stages[stage].A, i * MMA_M) + k * TileA::K_STEP,
            TileB::descriptor(s.stages[stage].B) + k * TileB::K_STEP, true);
    wgmma_commit();
    wgmma_wait<1>();
    if (tid == 0 && k_tile > 0) mbarrier_arrive(&s.empty[last]);
  }
  wgmma_wait<0>();
  // [/region roles]
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i) fence_operand(acc[i]);

    // Epilogue.
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i)
    store_accumulators(p, aligned_c, bm * BM + i * MMA_M, bn * BN, acc[i]);
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v19, grid, dim3(THREADS), {.smem = sizeof(Shared)}, stream, p, has_aligned_c(p),
               TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld));
}

const Registration rung({.prev = "v18",
                         .idea = "warp specialisation: a producer warp, a pipeline of buffers",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
