// v24 ping-pong: two warpgroups take turns at the tensor cores, each with its own tile.
//
// before: Both of v23's consumers end a tile at the same time. From the last wgmma of one tile to
//         the first of the next the tensor cores wait, about 4000 cycles.
// idea:   Each consumer computes tiles of its own. While consumer 0 stores one, consumer 1
//         multiplies the next. An ordered barrier tells each when it is its turn.
// watch:  Phases p and p + 2 have one parity, and a wait takes one for the other. So a consumer
//         waits for its k-tiles only when all of the other consumer's tile have arrived.
// needs:  It needs sm_90a. Unaligned operands are copied first, an unaligned C is stored by rows.
//
//   role        threads   waits for               then               and tells
//   producer    one       empty[stage]            loads a k-tile     full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of a tile    empty[stage], when it was read
//                                                                    order[other], all issued
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of the consumer whose tile it is
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   consumer 0  | tile 0 .......... | store | wait | tile 2 .......... | store |
//   consumer 1  | wait              | tile 1 .......... | store | wait | tile 3 ..........
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_main_loop.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, STAGES = 6;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64;                               // rows of one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles worked on together, at most
constexpr int EPILOGUE_STAGES = 2;                      // buffers per consumer for panels of C
constexpr int CONSUMERS = 2, THREADS = (CONSUMERS + 1) * 128;  // 2 consumer warpgroups, 1 producer
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64)
  uint8_t C[CONSUMERS][EPILOGUE_STAGES][64 * 64 * 2];  // (.., .., 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[CONSUMERS];
};

// [region roles]
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v24(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  // Where am I?
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);

  // The pipeline.
  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 == 0 && elect_one())
      for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
        produce<TileA, TileB>(s.A[0], s.B[0], s.full, s.empty, state, map_a, map_b, bm * BM,
                              bn * BN, 0, k_tiles);
      });
    return;
  }
  // [/region roles]

  // [region idea]
  // A consumer: every other tile of the CTA.
  setmaxnreg_inc<CONSUMER_REGS>();
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  const int first = blockIdx.x + wg * gridDim.x, step = CONSUMERS * gridDim.x;
  for_each_tile<GROUP_M>(first, step, tiles_m, tiles_n, [&](int bm, int bn) {
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity);
    parity ^= 1;
    const auto multiply = [&](int stage, int k_tile) {
      multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage]);
      // The other consumer's wgmma may queue up behind these.
      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);
    };
    const int last = multiply_k_tiles<1>(s.full, s.empty, state, k_tiles, multiply);
    finish_k_tiles<1>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile
                          // [/region idea]

    // [region epilogue]
    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = bm * BM + i * MMA_M, n = bn * BN;
      fence_operand(acc[i]);
      apply_epilogue(p, aligned_c, m, n, acc[i]);
      store_panels(p, aligned_c, map_c, m, n, s.C[wg], i, acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
  // [/region epilogue]
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks());
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v24, grid, dim3(THREADS), {.smem = sizeof(Shared)}, stream, p, has_aligned_c(p),
               TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld),
               c_map(p, 16));
}

const Registration rung({.prev = "v23",
                         .idea = "ping-pong: two warpgroups take turns, each with its own tile",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
