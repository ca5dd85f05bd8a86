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
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BX = ROW_PANELS_256.width, BY = ROW_PANELS_256.tallest, BK = 64;  // a tile, a k-tile
constexpr int WX = BX / 2, MMA_X = 64, MMA_K = 16;  // a consumer's part of a tile; a wgmma
constexpr int STAGES = 3, PANELS = BY / 64;         // of the pipeline; of each consumer's epilogue
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

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
  auto* sX = static_cast<uint8_t*>(dynamic_shared());
  uint8_t *sY = sX + STAGES * TileX::BYTES, *sC = sY + STAGES * TileY::BYTES;
  auto *full = reinterpret_cast<uint64_t*>(sC + 2 * PANELS * 8192), *empty = full + STAGES;
  if (tid == 0) init_pipeline<STAGES>(full, empty, 2 * CLUSTER);
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
          sY, sX, full, empty, state, map_y, map_x, m, x * BX, k_tiles, rank,
          TileX::BYTES + row_panels.box(rows) * BK * 2, nth++ % 2 == 1);
    });
    return;
  }

  // A consumer: its columns of every tile.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint8_t* const staging = sC + wg * PANELS * 8192;
  row_panels.for_each<CLUSTER>(first, step, rank, [&](int x, int m, int rows, int64_t left) {
    prefetch_c<WX>(p, true, m, x * BX + wg * WX, rows);
    float acc[WX / MMA_X][BY / 2];
    clear_registers(acc);
    int last = 0;
    // [region idea]
    with_height<ROW_PANELS_256.shortest, BY>(rows, [&](auto height) {
      constexpr int HEIGHT = decltype(height)::value;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
        const int s = state.stage;
        mbarrier_wait(&full[s], state.phase);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
          for (int i = 0; i < WX / MMA_X; ++i)
            wgmma<T, HEIGHT, X_MAJOR, Major::K>(
                reinterpret_cast<float(&)[HEIGHT / 2]>(acc[i]),
                TileX::descriptor(sX + s * TileX::BYTES, wg * WX + i * MMA_X) + k * TileX::K_STEP,
                TileY::descriptor(sY + s * TileY::BYTES) + k * TileY::K_STEP, true);
        wgmma_commit();
        wgmma_wait<1>();
        if (k_tile > 0) arrive_at_all<CLUSTER>(&empty[last]);
      }
    });
    // [/region idea]
    wgmma_wait<0>();
    if (k_tiles > 0) arrive_at_all<CLUSTER>(&empty[last]);

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
        store_panels_transposed<PANELS, PANELS>(row_panel, map_c, m, n, staging, i, acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
  if (CLUSTER > 1) sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

template <class T, int CLUSTER>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  const RowPanelChoice cut = plan.kept<RowPanelChoice>();
  const int64_t grid = std::min<int64_t>(cut.cluster_tiles(), plan.ctas / CLUSTER) * CLUSTER;
  constexpr size_t SMEM = STAGES * ((BX + BY) * BK * 2 + 2 * 8) + 2 * PANELS * 8192;
  const TmaOperands<T> in(p, stream);
  const auto map_y = [&](int rows) {
    return tensor_map(in.A.data, p.M, p.K, in.A.ld, rows, BK, OperandTile<T, BY, Major::K>::MODE);
  };
  with_majors(p, [&](auto, auto b) {
    gemm::launch(gemm_v27w<T, b(), CLUSTER>, grid, dim3(THREADS),
                 {.smem = SMEM, .cluster = CLUSTER, .pdl = true}, stream, p, cut.row_panels,
                 OperandTile<T, BX, b()>::template map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld),
                 map_y(cut.row_panels.short_box() + 8), map_y(cut.row_panels.short_box()),
                 c_map(p, 8));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"192x256 s3", launch<T, 1>}, {"192x256 s3 c2", launch<T, 2>}};

template <class T>
Plan plan(const GemmArgs<T>& p, const Arch& arch, int variant) {
  const bool straddled = straddles_lines(p);
  const int cluster = variant == ANY_VARIANT ? p.M > ROW_PANELS_256.tallest && straddled : variant;
  const RowPanelChoice cut = choose_row_panels(p.M, p.N, row_panels_256(1 + cluster), arch.sms);
  // Rows that straddle no cache lines v27 reads as fast. K and waves as there.
  Plan plan{.variant = cluster, .makespan = NEVER};
  if (straddled && cluster == 1 && (p.K >= 1024 || cut.waves(arch.sms) <= 1))
    plan.makespan = persistent_us(
        p, arch,
        cut.makespan(arch.sms) * arch.costs->straddled_clusters + arch.costs->transposed_epilogue);
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
