// v20 two consumers: a 128 x 256 tile, 64 rows for each of two consumer warpgroups.
//
// before: v19 reads 256 rows and columns of operands for 128 x 128 results per k-tile. Two CTAs
//         share an SM, each with its own tiles and its own waits.
// idea:   An SM has one CTA with twice the tile: 384 rows and columns for 128 x 256 results, a
//         quarter less from L2. Two warpgroups share every tile of B. A wgmma is 256 wide, which is
//         the most work for the bytes that it reads from shared memory.
// watch:  65536 / 384 threads leave 168 registers each, too few for 128 accumulators and an
//         epilogue. The producer's warpgroup keeps 24, and the consumers take 240.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
//
//   role        threads   waits for      then                          and tells
//   producer    one       empty[stage]   loads 128 x 64 and 64 x 256   full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma m64n256k16            empty[stage], a k-tile later
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   2 arrivals, one of each consumer
//
//   producer     | load k-tile 0 | load 1 | load 2 | load 3 | wait | load 4 ...
//   consumer 0                   | rows 0 to 63 of k-tile 0 | of 1 | of 2 ...
//   consumer 1                   | rows 64 to 127 of 0      | of 1 | of 2 ...
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64, MMA_K = 16;                   // one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles that are worked on together
// [region idea]
constexpr int CONSUMERS = BM / MMA_M;           // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;  // and the producer's: 168 registers per thread
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(PRODUCER_REGS + CONSUMERS * CONSUMER_REGS <= 3 * 168, "what a CTA gets at launch");
// [/region idea]

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64)
  uint64_t full[STAGES], empty[STAGES];
};

__global__ void __launch_bounds__(THREADS, 1)
    gemm_v20(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, wg = tid / 128, k_tiles = cdiv(p.K, BK);

  // The pipeline.
  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS);
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
      const int stage = state.stage;
      mbarrier_wait(&s.empty[stage], state.phase ^ 1);
      mbarrier_arrive_expect_tx(&s.full[stage], TileA::BYTES + TileB::BYTES);
      TileA::load(s.A[stage], map_a, bm * BM, k_tile * BK, &s.full[stage]);
      TileB::load(s.B[stage], map_b, bn * BN, k_tile * BK, &s.full[stage]);
    }
    return;
  }

  // A consumer.
  setmaxnreg_inc<CONSUMER_REGS>();
  float acc[BN / 2] = {};
  for (int k_tile = 0, last = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
    const int stage = state.stage;
    mbarrier_wait(&s.full[stage], state.phase);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / MMA_K; ++k)
      wgmma<half, BN, Major::K, Major::MN>(
          acc, TileA::descriptor(s.A[stage], wg * MMA_M) + k * TileA::K_STEP,
          TileB::descriptor(s.B[stage]) + k * TileB::K_STEP, true);
    wgmma_commit();
    wgmma_wait<1>();
    if (tid % 128 == 0 && k_tile > 0) mbarrier_arrive(&s.empty[last]);
  }
  wgmma_wait<0>(acc);

  // Epilogue.
  store_accumulators(p, aligned_c, bm * BM + wg * MMA_M, bn * BN, acc);
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v20, grid, dim3(THREADS), {.smem = sizeof(Shared)}, stream, p, has_aligned_c(p),
               TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld));
}

const Registration rung({.prev = "v19",
                         .idea = "128 x 256 tile, two consumer warpgroups, registers moved",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
