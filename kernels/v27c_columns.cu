// v27c uneven columns: tiles as wide as few rows of C need them, in clusters that share B.
//
// before: 512 x 3072 is 96 tiles of 128 x 128: 36 of 132 SMs idle. v27 cuts M, where there is
//         nothing to cut, and reads B once for tall tiles and once more for short ones
// idea:   cut N. Column panels have any width that is a multiple of 8 and fills the waves: 93
//         columns on average, and 512 x 3072 is one wave. Narrow tiles read more for each result,
//         so two CTAs, one above the other, share B's panel: each loads every other k-tile of B
//         for both
// watch:  a box of B begins at any column where B is K-major, transposed. A panel may end in the
//         middle of TMA's 64 columns, so C is stored from the registers
// needs:  sm_90a; A as stored, B transposed, C's rows in whole 16 bytes: v27 or v24 otherwise;
//         copies as for v24
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads A's k-tile, and  full[stage], of both CTAs
//                                                 B's in its turn        where B's comes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage] of both CTAs,
//                                                                        a k-tile on; order[other]
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes: A's own, B's from either CTA
//   empty[stage]   2 arrivals, one of each CTA: of the consumer whose tile it is. Each producer
//                  waits for both: in its turn it writes to both, and else the other one does
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   CTA 0   | A 0, B 0 for both | A 1               | A 2, B 2 for both | ...
//   CTA 1   | A 0               | A 1, B 1 for both | A 2               | ...
#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/row_panels.cuh"
#include "device/wgmma_costs.h"
#include "device/wgmma_main_loop.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64;  // depth of a k-tile; rows of a wgmma
constexpr int CLUSTER = 2;          // CTAs, one above the other
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES>
struct Shared {                     // every tile starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN, BK), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// A variant: rows of a tile, columns of its narrowest and of its widest panel, and stages. Narrow
// panels leave room for more stages, with which tensor cores wait less; tiles of 64 rows read more
// shared memory.
struct Tile {
  int bm, narrowest, bn, stages;

  // A cluster's two tiles. Column panels are row panels of C^T.
  constexpr RowPanelShape panels() const { return {CLUSTER * bm, narrowest, bn, 8}; }
};
constexpr Tile TILES[] = {{128, 136, 192, 5}, {128, 104, 160, 6}, {128, 72, 128, 7},
                          {64, 104, 192, 7},  {64, 72, 128, 9},   {64, 40, 96, 11}};

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, int BM, int NARROWEST, int BN, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27c(Args p, RowPanels panels, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_wide,
              const __grid_constant__ TensorMap map_narrow) {
  using T = typename Args::TypeA;
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int first = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER, rank = blockIdx.x % CLUSTER;
  auto& s = *static_cast<Shared<TileA, TileB, STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, CLUSTER);
  }
  sync_cluster<CLUSTER>();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    panels.for_each(first, step, [&](int pair, int n, int columns, int64_t) {
      const int m = (pair * CLUSTER + rank) * BM;
      const TensorMap& map_b = columns > panels.short_box() ? map_wide : map_narrow;
      grid_dependency_wait(m, n);  // after the first tile's coordinates have been computed
      // [region idea]
      const auto load = [&](int stage, int k_tile) {
        if (k_tile % CLUSTER == rank)
          tma_load_multicast(s.B[stage], map_b, n, k_tile * BK, &s.full[stage], 0b11);
        TileA::load(s.A[stage], map_a, m, k_tile * BK, &s.full[stage]);
      };
      const int bytes = TileA::BYTES + panels.box(columns) * BK * 2;
      load_k_tiles(s.full, s.empty, state, 0, k_tiles, bytes, load);
      // [/region idea]
    });
    return;
  }

  // A consumer: every other tile of the CTA.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t order_phase = wg ^ 1;  // consumer 0 begins
  state.skip(wg * k_tiles);
  const int signal_k_tile = k_tiles > 1 ? k_tiles - 2 : 0;  // as in v27
  panels.for_each(first + wg * step, 2 * step, [&](int pair, int n, int columns, int64_t) {
    const int m = (pair * CLUSTER + rank) * BM;
    Args panel = p;
    panel.N = p.N < n + columns ? p.N : n + columns;  // where it ends
    prefetch_c<BN>(panel, true, m, n, BM);
    touch_vectors<BN>(panel, n);
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    int last = 0;
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], order_phase++ & 1);
    with_height<NARROWEST, BN>(columns, [&](auto width) {
      const auto multiply = [&](int stage, int k_tile) {
        multiply_k_tile<TileA, TileB, decltype(width)::value>(acc, s.A[stage], s.B[stage]);
        if (k_tile == signal_k_tile && tid % 32 == 0) mbarrier_arrive(other);
      };
      last = multiply_k_tiles<CLUSTER>(s.full, s.empty, state, k_tiles, multiply);
    });
    finish_k_tiles<CLUSTER>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      fence_operand(acc[i]);
      apply_epilogue<BN % 64 == 0 ? 32 : 16>(panel, true, m + i * MMA_M, n, acc[i]);
      store_accumulators_aligned(panel, m + i * MMA_M, n, acc[i]);
    }
  });
  sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

template <class Args, int TILE>
void launch(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  constexpr int BM = TILES[TILE].bm, BN = TILES[TILE].bn, STAGES = TILES[TILE].stages;
  const RowPanelChoice cut = plan.kept<RowPanelChoice>();
  const int64_t grid = std::min<int64_t>(cut.tiles(), plan.ctas / CLUSTER) * CLUSTER;
  const TmaOperands<T> in(p, stream);
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  const auto map_b = [&](int columns) {
    return tensor_map(in.B.data, p.N, p.K, in.B.ld, columns, BK, TileB::MODE);
  };
  gemm::launch(gemm_v27c<Args, BM, TILES[TILE].narrowest, BN, STAGES>, grid, dim3(THREADS),
               {.smem = sizeof(Shared<TileA, TileB, STAGES>), .cluster = CLUSTER, .pdl = true},
               stream, p, cut.row_panels, TileA::map(in.A.data, p.M, p.K, in.A.ld),
               map_b(cut.row_panels.short_box() + 8), map_b(cut.row_panels.short_box()));
}

template <class T, int TILE>
constexpr Variant<T> of_tile(const char* name) {
  return {name, launch<GemmArgs<T>, TILE>, nullptr, launch<FusedArgs<T>, TILE>};
}
template <class T>
const Variant<T> VARIANTS[] = {of_tile<T, 0>("128x192 s5"), of_tile<T, 1>("128x160 s6"),
                               of_tile<T, 2>("128x128 s7"), of_tile<T, 3>("64x192 s7"),
                               of_tile<T, 4>("64x128 s9"),  of_tile<T, 5>("64x96 s11")};

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const int pairs = arch.sms / CLUSTER, first = variant == ANY_VARIANT ? 0 : variant;
  const int end = variant == ANY_VARIANT ? int{std::size(TILES)} : variant + 1;
  const Costs& costs = *arch.costs;
  const double per_tile = 1 + costs.column_epilogue_k / (p.K + costs.wgmma.epilogue_k);
  Plan plan;
  double least = NEVER;
  for (int i = first; i < end; ++i) {
    const Tile& tile = TILES[i];
    const RowPanelChoice cut = choose_row_panels(p.N, p.M, tile.panels(), pairs);
    const double last_tile = epilogue_waves(p, costs) * cut.tallest() * cut.shape.width;
    const double makespan =
        costs.column_panels[i] * per_tile * (cut.makespan(pairs) + last_tile) / CLUSTER;
    const double rows = std::max(1. / tile.bm + 1 / cut.height(), 1 / 64.);
    const double us = persistent_us(p, arch, makespan, 1, {.rows = rows});
    if (i > first && us >= least) continue;
    least = us;
    plan.variant = i;
    plan.keep(cut);
  }
  // M of many tiles v27 cuts as well, and it stores with TMA. A small B v24 has in L2, without
  // waiting for a cluster. With 64 rows or fewer one CTA of each pair would have nothing to do.
  const bool few_rows = p.M > 64 && p.M <= 1024 && sizeof(T) * double(p.N) * p.K >= 10e6;
  plan.makespan = few_rows && !straddles_lines(p) ? least : NEVER;
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return plan.kept<RowPanelChoice>().why(plan.sms / CLUSTER, "column", CLUSTER);
}

// A panel of columns can begin anywhere in a K-major B.
template <class T>
bool takes(const GemmArgs<T>& p) {
  return p.op_a == Op::N && p.op_b == Op::T && has_aligned_c(p);
}

const Registration rung({.prev = "v27",
                         .idea = "uneven columns: for few rows of C, in clusters that share B",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, takes}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, takes})});

}  // namespace
