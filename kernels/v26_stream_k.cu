// v26 stream-K: no CTA idles in the last wave.
//
// before: v24's tiles take whole waves: 4096 x 4096 are 7.76 of 128 x 128, and cost 8; 2560 x 2560
//         are 3.03, and cost 4
// idea:   the tiles that fill no wave are cut along K into equal shares of k-tiles, one a CTA. A
//         CTA whose share ends within a tile stores its partial sums; the next CTA, which ends the
//         tile, adds them: the fixup
// watch:  no CTA should wait for partial sums: their work unit comes first. And CTAs should read
//         the same k-tiles at the same time, else they lose reuse in L2: the work unit that ends a
//         tile comes second, so that all CTAs are done with both at the same time
// needs:  sm_90a; copies of operands that TMA cannot address; stores by rows where C is unaligned
//
//   role        threads   waits for               then                  and tells
//   producer    one       empty[stage]            loads a k-tile        full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of a work unit  empty[stage], a k-tile on;
//                                                                       order[other], after a work
//                                                                       unit
//     a warp              the CTA before: a flag  adds its sums         the CTA after: a flag
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival, of the consumer whose work unit it is
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   consumer 0  | begins a tile, stores sums    | whole tile ...... | store |
//   consumer 1  | wait | ends a tile | add the sums, store | whole tile ...
#include "device/dynamic_shared.cuh"
#include "device/fixup.cuh"
#include "device/fused_epilogue.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_costs.h"
#include "device/wgmma_main_loop.cuh"
#include "plan/tiles.h"
#include "rung.h"
#include "v26_stream_k/work_units.cuh"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64;              // depth of a k-tile; rows of one wgmma
constexpr int GROUP_M = 16, THREADS = 3 * 128;  // rows of tiles a group; threads of all roles
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK) or, transposed, (STAGES, BM / 64, BK, 64)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
  WorkUnits units;
};

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, Major A_MAJOR, Major B_MAJOR, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v26(Args p, bool aligned_c, Fixup fixup, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  using T = typename Args::TypeA;
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  const int tid = threadIdx.x, wg = warpgroup();
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  WorkUnits& units = s.units;
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
    units = WorkUnits(blockIdx.x, gridDim.x, cdiv(p.M, BM), cdiv(p.N, BN), GROUP_M, cdiv(p.K, BK),
                      Args::FUSED || !p.epilogue.only_scales());
  }
  __syncthreads();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for (int i = 0; i < units.count(); ++i) {
      const WorkUnit unit = units[i];
      const TileIndex at = units.place(unit);
      grid_dependency_wait(at.m, at.n);  // after the first tile's coordinates have been computed
      produce<TileA, TileB>(s.A[0], s.B[0], s.full, s.empty, state, map_a, map_b, at.m * BM,
                            at.n * BN, unit.begin, unit.end);
    }
    return;
  }

  // A consumer: every other work unit of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint64_t* const other = order_of_other(s.order, wg);
  // [region idea]
  for (int nth = 0; nth < units.count(); ++nth) {
    const WorkUnit unit = units[nth];
    const int k_tiles = unit.end - unit.begin;
    if (nth % 2 != wg) {  // the other consumer's
      state.skip(k_tiles);
      continue;
    }
    if (const TileIndex at = units.place(unit); units.ends_tile(unit)) {
      prefetch_c<BN>(p, aligned_c, at.m * BM, at.n * BN, BM);
      touch_vectors<BN>(p, at.n * BN);
    }
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], (nth / 2 + wg + 1) % 2);  // consumer 0 begins
    const auto multiply = [&](int stage, int k_tile) {
      multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage]);
      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);
    };
    const int last = multiply_k_tiles<1>(s.full, s.empty, state, k_tiles, multiply);
    TileIndex at = units.place(unit);  // while the last wgmma run
    if constexpr (Args::FUSED && BN > 128)
      at = {at_use(at.m), at_use(at.n)};  // not behind the fixup
    finish_k_tiles<1>(s.empty, k_tiles, last);
    fence_operand(acc);
    // Epilogue.
    if (!units.ends_tile(unit)) {
      fixup.store_partials(blockIdx.x, acc);
      continue;
    }
    if (unit.begin > 0) fixup.add_partials(blockIdx.x - 1, acc);
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      int m = at.m * BM + i * MMA_M;
      const int n = at.n * BN;
      if constexpr (Args::FUSED) m = at_use(m);  // its addresses, too: no spills
      apply_epilogue<Args::FUSED && BN == 128 ? 32 : 16>(p, aligned_c, m, n,
                                                         acc[i]);  // 32 would spill
      store_panels(p, aligned_c, map_c, m, n, s.C[wg], i, acc[i]);
    }
  }
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, plan.ctas);
  const TmaOperands<T> in(p, stream);
  const bool full_waves = tiles == 0 || tiles % grid == 0;
  const FixupWorkspace fixup(full_waves ? 0 : grid, BM * BN, stream);
  with_majors(p, [&](auto a, auto b) {
    using TileA = OperandTile<T, BM, a()>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(gemm_v26<Args, a(), b(), BM, BN, STAGES, EPILOGUE_STAGES>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>), .pdl = true},
                 stream, p, has_aligned_c(p), fixup.get(), TileA::map(in.A.data, p.M, p.K, in.A.ld),
                 TileB::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x192 s4", launch<GemmArgs<T>, 128, 192, 4, 2>, nullptr,
                                launch<FusedArgs<T>, 128, 192, 4, 2>, nullptr, has_rows_of_a},
                               {"128x128 s6", launch<GemmArgs<T>, 128, 128, 6, 2>, nullptr,
                                launch<FusedArgs<T>, 128, 128, 6, 2>, nullptr, has_rows_of_a}};

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const Costs& costs = *arch.costs;
  const TileChoice tile =
      choose_tile(p.M, p.N, p.K, costs.stream_k, std::size(costs.stream_k), arch.sms, costs.fixup_k,
                  variant, 1, epilogue_waves(p, costs));
  // Where rows straddle lines, its CTAs' requests for a row's two lines seldom meet in L2.
  const double makespan = tile.makespan * (straddles_lines(p) ? costs.straddled_stream_k : 1);
  // Stream-K tiles of one column are at different k-tiles, and each reads B from memory.
  const Tiling& tiling = tile.tiling;
  const double stream_k =
      tiling.cut ? (arch.sms + tiling.tiles % arch.sms) / double(tiling.tiles) : 0;
  const int rows = std::min(cdiv(p.M, tiling.bm), GROUP_M);
  const Reads reads = reads_of_passes(p, 1 + stream_k * (rows - 1));
  // Where K is short, the fixups weigh more than the wave that they save.
  Plan plan{.variant = tile.index,
            .makespan = p.K < 1024 ? NEVER : persistent_us(p, arch, makespan, 1, reads)};
  plan.keep(tile.tiling);
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return gemm::explain(plan.kept<Tiling>());
}

const Registration rung({.prev = "v24",
                         .idea = "stream-K: no CTA idles in the last wave",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
