// v24r B-stationary: where K is short, a column panel of B stays in shared memory, A passes by.
//
// before: v24 loads A and B for every tile, 13 bytes a result at K = 512; and its consumers compute
//         addresses in the pipeline between the wgmma of two k-tiles
// idea:   128 columns of B with all of a K up to 512 are 128 KB: they stay while a block goes down
//         their column panel of C, 8 bytes a result. A tile takes whole passes through the
//         pipeline, so that the loop can be unrolled and all its addresses are constants
// watch:  who loads B's next column panel must know that the last one has been read. The pipeline
//         says so: once a stage is empty again, that k-tile of the tile before has been read
// needs:  sm_90a; other K, C's rows not in whole 16 bytes: v24; copies as for v24
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile of A    full[stage], TMA's bytes
//                                                 and a column panel's of B
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], after a tile
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival, of the consumer whose tile it is
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   producer    | B, A of tile 0 | A of tile 1 | A of tile 2 ...    | next B, A ...
//   consumer 0           | tile 0 ...... | store | wait | tile 2 ...... | store |
//   consumer 1           | wait          | tile 1 ...... | store | wait | tile 3 ...
#include "device/dynamic_shared.cuh"
#include "device/persistent.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_costs.h"
#include "rung.h"
#include "v24r_resident/work_range.cuh"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64, MMA_M = 64, MMA_K = 16;  // a tile, a k-tile, a wgmma
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;
constexpr int EPILOGUE_STAGES = 2;  // panels of results for each consumer

template <class TileA, class TileB, int STAGES, int WRAPS>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK) or, transposed, (.., BM / 64, BK, 64)
  uint8_t B[WRAPS * STAGES]
           [TileB::BYTES];  // (K / BK, BN / 64, BK, 64) or, transposed, (.., BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// A tile takes WRAPS passes through the pipeline. A work range may end with LEAST rows of a tile:
// CTAs then have more equal shares, but it costs a consumer cycles that it lacks where K is
// shortest.
template <class T, Major A_MAJOR, Major B_MAJOR, int STAGES, int WRAPS, int LEAST>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v24r(GemmArgs<T> p, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  constexpr int K_TILES = WRAPS * STAGES;  // of a tile; what lies beyond K is zero
  const int tid = threadIdx.x, wg = warpgroup();
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, WRAPS>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();
  grid_launch_dependents();

  WorkRange<BM / LEAST> range(cdiv(p.N, BN), cdiv(p.M, LEAST));
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    grid_dependency_wait();
    produce_range<TileA, TileB, K_TILES, LEAST>(range, s.A[0], s.B[0], s.full, s.empty,
                                                PipelineState<STAGES>(), map_a, map_b);
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  // The ordered barrier's phase: consumer 0 begins. How often the pipeline has wrapped around.
  uint32_t order_phase = wg ^ 1, wrap = wg * WRAPS;
  // [region idea]
  if (wg == 1) range.advance();
  while (range.has_tile()) {
    const int m = range.part * LEAST, n = range.col_panel * BN;
    const int blocks = range.count * (LEAST / MMA_M);  // of 64 rows
    const bool last = range.last();
    prefetch_c<BN>(p, true, m, n, blocks * MMA_M);
    float acc[BM / MMA_M][BN / 2];
    mbarrier_wait(&s.order[wg], order_phase++ & 1);
    with_blocks<BM / MMA_M, LEAST / MMA_M>(blocks, [&](auto constant) {
      constexpr int BLOCKS = decltype(constant)::value;
#pragma unroll
      for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
        const int stage = k_tile % STAGES;
        mbarrier_wait(&s.full[stage], (wrap + k_tile / STAGES) & 1);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
          for (int i = 0; i < BLOCKS; ++i)
            wgmma<T, BN, A_MAJOR, B_MAJOR>(
                acc[i], TileA::descriptor(s.A[stage], i * MMA_M) + k * TileA::K_STEP,
                TileB::descriptor(s.B[k_tile]) + k * TileB::K_STEP, k_tile + k > 0);
        wgmma_commit();
        if (k_tile == K_TILES - 1 && tid % 32 == 0) mbarrier_arrive(&s.order[wg ^ 1]);
        wgmma_wait<1>();
        if (k_tile > 0 && tid % 128 == 0) mbarrier_arrive(&s.empty[(stage + STAGES - 1) % STAGES]);
      }
    });
    range.advance();  // here, while the last wgmma run
    range.advance();  // past the other consumer's
    wgmma_wait<0>();
    if (tid % 128 == 0) mbarrier_arrive(&s.empty[STAGES - 1]);
    wrap += 2 * WRAPS;  // its own, and those of the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      if (i == blocks) break;
      fence_operand(acc[i]);
      apply_epilogue<64>(p, true, m + i * MMA_M, n, acc[i]);
      if (last)  // no main loop hides it
        store_accumulators_aligned(p, m + i * MMA_M, n, acc[i]);
      else
        store_panels(p, true, map_c, m + i * MMA_M, n, s.C[wg], i, acc[i]);
    }
  }
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int STAGES, int WRAPS, int LEAST>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  const int64_t parts = int64_t{cdiv(p.M, LEAST)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(parts, plan.ctas);
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    using TileA = OperandTile<T, BM, a()>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(gemm_v24r<T, a(), b(), STAGES, WRAPS, LEAST>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileA, TileB, STAGES, WRAPS>), .pdl = true}, stream, p,
                 TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld),
                 c_map(p, 16));
  });
}

template <class T, int MOST_K>
bool holds(const GemmArgs<T>& p) {
  return p.K <= MOST_K;
}
template <class T>
const Variant<T> VARIANTS[] = {{"k256 s4", launch<T, 4, 1, 128>, holds<T, 256>},
                               {"k384 s6", launch<T, 6, 1, 64>, holds<T, 384>},
                               {"k512 s4", launch<T, 4, 2, 64>, holds<T, 512>}};

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const Costs& costs = *arch.costs;
  const int col_panels = cdiv(p.N, BN);
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * col_panels;
  const double waves = double((tiles + arch.sms - 1) / arch.sms) + costs.b_stationary_load;
  constexpr double STRADDLED = 1.15;  // rows of A straddle 128-byte lines: two requests each
  const double cost = costs.b_stationary[cdiv(p.K, BK)] *
                      (col_panels > arch.sms ? costs.b_stationary_next : 1) *
                      (straddles_lines(p) ? STRADDLED : 1);
  return {.variant = variant == ANY_VARIANT ? std::max(cdiv(p.K, 128) - 2, 0) : variant,
          .makespan =
              persistent_us(p, arch, cost * waves * BM * BN + epilogue_waves(p, costs) * BM * BN)};
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan&) {
  return std::to_string(BN) + " columns of B stay with all of K = " + std::to_string(p.K);
}

const Registration rung({.prev = "v24",
                         .idea = "B-stationary: where K is short, a column panel of B stays",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, allows_b_stationary}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, allows_b_stationary})});

}  // namespace
