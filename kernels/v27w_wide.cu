// v27w wide tiles: two consumers share a tile of 192 x 256, for the power limit.
//
// before: v24 and v27 win in pairs, for they need the fewest cycles. But the card is at its power
//         limit, and energy sets the speed of a kernel that runs alone: there v27 loses
// idea:   what can be saved is what comes into shared memory, 12 to 17 pJ a byte. Each consumer has
//         one half of a tile that is twice as wide: row panels of 182 rows by 256 columns read 28 %
//         less than v27's of 190 by 128. And clusters of two, where a row pitch of A or B is not a
//         multiple of 128 bytes: L2 is asked twice for each, so that its requests are what is short
// watch:  both consumers end a tile at the same time, and nobody computes while they store. So
//         all rows of 64 columns leave at once: three panels behind one fence, not three
// needs:  sm_90a; A transposed or C's rows not in whole 16 bytes: v24; copies as for v24
//
//   role        threads   waits for     then                        and tells
//   producer    one       empty[stage]  loads a k-tile              full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]   wgmma of 128 columns each   empty[stage], a k-tile later
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   2 arrivals of each CTA, one of each consumer
//
//   producer     | tile 0: k-tiles 0 1 2 ... | tile 1: k-tiles 0 1 2 | ...
//   consumer 0           | left 128 columns of tile 0 ...  | store | of tile 1 ...
//   consumer 1           | right 128 columns of tile 0 ... | store | of tile 1 ...
#include "device/dynamic_shared.cuh"
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
#include "device/tma_epilogue.cuh"
#include "device/wgmma_costs.h"
#include "device/wgmma_main_loop.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BX = ROW_PANELS_256.width, BY = ROW_PANELS_256.tallest, BK = 64;  // a tile, a k-tile
constexpr int WX = BX / 2, MMA_X = 64;       // columns of a consumer, of a wgmma
constexpr int STAGES = 3, PANELS = BY / 64;  // of the pipeline; of each consumer's epilogue
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileX, class TileY>
struct Shared {                       // every panel starts at a multiple of 1024 bytes
  uint8_t X[STAGES][TileX::BYTES];    // (STAGES, BX / 64, BK, 64) or, transposed, (STAGES, BX, BK)
  uint8_t Y[STAGES][TileY::BYTES];    // (STAGES, BY, BK)
  uint8_t C[2][PANELS][64 * 64 * 2];  // (consumer, PANELS, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES];
};

// The blocks of a cluster have the same columns, in row panels one above the other.
template <class T, Major X_MAJOR, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27w(GemmArgs<T> p, RowPanels row_panels, const __grid_constant__ TensorMap map_x,
              const __grid_constant__ TensorMap map_tall,
              const __grid_constant__ TensorMap map_short,
              const __grid_constant__ TensorMap map_c) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Major::K>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  auto& s = *static_cast<Shared<TileX, TileY>*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, 2 * CLUSTER);
  sync_cluster<CLUSTER>();
  grid_launch_dependents();
  const int first = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER, rank = blockIdx.x % CLUSTER;

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    int nth = 0;  // every other tile starts at the end of K, as in v27
    row_panels.for_each<CLUSTER>(first, step, rank, [&](int x, int m, int rows, int64_t) {
      const TensorMap& map_y = rows > row_panels.short_box() ? map_tall : map_short;
      grid_dependency_wait(x, m);  // after the first tile's coordinates have been computed
      produce_shared<TileY, TileX, CLUSTER>(
          s.Y[0], s.X[0], s.full, s.empty, state, map_y, map_x, m, x * BX, k_tiles, rank,
          TileX::BYTES + row_panels.box(rows) * BK * 2, nth++ % 2 == 1);
    });
    return;
  }

  // A consumer: its columns of every tile.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  row_panels.for_each<CLUSTER>(first, step, rank, [&](int x, int m, int rows, int64_t left) {
    prefetch_c<WX>(p, true, m, x * BX + wg * WX, rows);
    float acc[WX / MMA_X][BY / 2];
    clear_registers(acc);
    int last = 0;
    // [region idea]
    with_height<ROW_PANELS_256.shortest, BY>(rows, [&](auto height) {
      const auto multiply = [&](int stage, int) {
        multiply_k_tile<TileX, TileY, decltype(height)::value>(acc, s.X[stage], s.Y[stage],
                                                               wg * WX);
      };
      last = multiply_k_tiles<CLUSTER>(s.full, s.empty, state, k_tiles, multiply);
    });
    // [/region idea]
    finish_k_tiles<CLUSTER>(s.empty, k_tiles, last);

    // Epilogue.
    GemmArgs<T> row_panel = p;
    row_panel.M = p.M < m + rows ? p.M : m + rows;  // where it ends
#pragma unroll
    for (int i = 0; i < WX / MMA_X; ++i) {
      const int n = x * BX + wg * WX + i * MMA_X;
      fence_operand(acc[i]);
      apply_epilogue_transposed(row_panel, m, n, acc[i]);
      if (left <= step)
        store_transposed(row_panel, m, n, acc[i]);
      else
        store_panels_transposed<PANELS>(row_panel, map_c, m, n, s.C[wg], i, acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
  if (CLUSTER > 1) sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

template <class T, int CLUSTER>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  const RowPanelChoice cut = plan.kept<RowPanelChoice>();
  const int64_t grid = std::min<int64_t>(cut.cluster_tiles(), plan.ctas / CLUSTER) * CLUSTER;
  const TmaOperands<T> in(p, stream);
  using TileY = OperandTile<T, BY, Major::K>;
  const auto map_y = [&](int rows) {
    return tensor_map(in.A.data, p.M, p.K, in.A.ld, rows, BK, TileY::MODE);
  };
  with_majors(p, [&](auto, auto b) {
    using TileX = OperandTile<T, BX, b()>;
    gemm::launch(gemm_v27w<T, b(), CLUSTER>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileX, TileY>), .cluster = CLUSTER, .pdl = true}, stream, p,
                 cut.row_panels, TileX::template map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld),
                 map_y(cut.row_panels.short_box() + 8), map_y(cut.row_panels.short_box()),
                 c_map(p, 8));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"192x256 s3", launch<T, 1>}, {"192x256 s3 c2", launch<T, 2>}};

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const bool straddled = straddles_lines(p);
  const int cluster = variant == ANY_VARIANT ? p.M > ROW_PANELS_256.tallest && straddled : variant;
  const RowPanelChoice cut = choose_row_panels(p.M, p.N, row_panels_256(1 + cluster), arch.sms);
  Plan plan{.variant = cluster, .makespan = NEVER};
  // Each consumer has half of a tile, and the tensor cores wait for both epilogues of every tile:
  // as long as so much of K.
  constexpr double EPILOGUE_K = 95;
  const double results = cut.makespan(arch.sms) * (straddled ? arch.costs->straddled_clusters
                                                             : 1 + EPILOGUE_K / (p.K + EPILOGUE_K));
  const double epilogues = arch.costs->transposed_epilogue + epilogue_waves(p, *arch.costs) *
                                                                 double(cut.waves(arch.sms)) *
                                                                 cut.tallest() * WX;
  const double longer = transposed_epilogues(p, *arch.costs, double(cut.waves(arch.sms)));
  if ((cluster == 1) == straddled)
    plan.makespan =
        persistent_us(p, arch, results * longer + epilogues, 1, reads_of_passes(p, cut.passes())) +
        second_reading_us(p, arch, cut.passes());
  plan.keep(cut);
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return plan.kept<RowPanelChoice>().why(plan.sms);
}

const Registration rung({.prev = "v27",
                         .idea = "wide tiles: two consumers share one, for fewer bytes",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, allows_row_panels}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, allows_row_panels})});

}  // namespace
