// v27 uneven tiles: all waves full, and nothing cut along K.
//
// before: v26's CTAs end together, but read different k-tiles at a time: they lose reuse in L2, and
//         at 4096 the first two waves lose what the last one gains
// idea:   tiles of neighbouring heights: 24 or 25 row panels of 160 to 176 rows make 4096 x 4096
//         exactly 6 x 132 tiles. A wgmma has any multiple of 8 columns, so C^T is computed: a row
//         panel of A gives those columns, K-major, so that a TMA box may begin at any row
// watch:  CTAs should be at the same k-tile at the same time, so all tall tiles come before all
//         short ones. The epilogue transposes C, slowly, except for a CTA's last tile
// needs:  sm_90a; A transposed or C's rows not in whole 16 bytes: v24; copies as for v24
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile         full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], near its end
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival, of the consumer whose tile it is
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   consumer 0  | tall tile 0 .... | store | wait | tall tile 2 .... | store | short ...
//   consumer 1  | wait             | tall tile 1 .... | store | wait | short tile 3 ...
#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
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

constexpr int BX = ROW_PANELS_128.width, BK = 64;  // a tile's columns; depth of a k-tile
constexpr int MMA_X = 64;                          // rows of one wgmma
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileX, class TileY, int STAGES, int EPILOGUE_STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t X[STAGES][TileX::BYTES];  // (STAGES, BX / 64, BK, 64) or, transposed, (STAGES, BX, BK)
  uint8_t Y[STAGES][TileY::BYTES];  // (STAGES, BY, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, Major X_MAJOR, int BY, int STAGES, int EPILOGUE_STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27(Args p, RowPanels row_panels, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_tall,
             const __grid_constant__ TensorMap map_short, const __grid_constant__ TensorMap map_c) {
  using T = typename Args::TypeA;
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Major::K>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  auto& s = *static_cast<Shared<TileX, TileY, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    int nth = 0;  // every other tile starts at the end of K: its k-tiles are still in L2
    row_panels.for_each(blockIdx.x, gridDim.x, [&](int x, int m, int rows, int64_t) {
      const TensorMap& map_y = rows > row_panels.short_box() ? map_tall : map_short;
      grid_dependency_wait(x, m);  // after the first tile's coordinates have been computed
      produce<TileX, TileY>(s.X[0], s.Y[0], s.full, s.empty, state, map_x, map_y, x * BX, m, 0,
                            k_tiles, TileX::BYTES + row_panels.box(rows) * BK * 2, nth++ % 2 == 1);
    });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t order_phase = wg ^ 1;  // consumer 0 begins
  state.skip(wg * k_tiles);
  const int first = blockIdx.x + wg * gridDim.x;
  // The other consumer may begin one k-tile early: it first branches to its tile's height.
  const int signal_k_tile = k_tiles > 1 ? k_tiles - 2 : 0;
  row_panels.for_each(first, 2 * gridDim.x, [&](int x, int m, int rows, int64_t left) {
    prefetch_c<BX>(p, true, m, x * BX, rows);
    touch_vectors<BY, true>(p, m);
    float acc[BX / MMA_X][BY / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    int last = 0;
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], order_phase++ & 1);
    // [region idea]
    with_height<ROW_PANELS_128.shortest, BY>(rows, [&](auto height) {
      const auto multiply = [&](int stage, int k_tile) {
        multiply_k_tile<TileX, TileY, decltype(height)::value>(acc, s.X[stage], s.Y[stage]);
        if (k_tile == signal_k_tile && tid % 32 == 0) mbarrier_arrive(other);
      };
      last = multiply_k_tiles<1>(s.full, s.empty, state, k_tiles, multiply);
    });
    // [/region idea]
    finish_k_tiles<1>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
    Args row_panel = p;
    row_panel.M = p.M < m + rows ? p.M : m + rows;  // where it ends
#pragma unroll
    for (int i = 0; i < BX / MMA_X; ++i) {
      const int n = x * BX + i * MMA_X;
      fence_operand(acc[i]);
      apply_epilogue_transposed<BY <= 160 ? BY / 2 : BY / 4>(row_panel, m, n, acc[i]);
      if (left <= gridDim.x)
        store_transposed(row_panel, m, n, acc[i]);
      else
        store_panels_transposed(row_panel, map_c, m, n, staging, i, acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class Args, int BY, int STAGES, int EPILOGUE_STAGES>
void launch(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  const RowPanelChoice cut = plan.kept<RowPanelChoice>();
  const int64_t grid = std::min<int64_t>(cut.cluster_tiles(), plan.ctas);
  const TmaOperands<T> in(p, stream);
  using TileY = OperandTile<T, BY, Major::K>;
  const auto map_y = [&](int rows) {
    return tensor_map(in.A.data, p.M, p.K, in.A.ld, rows, BK, TileY::MODE);
  };
  with_majors(p, [&](auto, auto b) {
    using TileX = OperandTile<T, BX, b()>;
    gemm::launch(gemm_v27<Args, b(), BY, STAGES, EPILOGUE_STAGES>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileX, TileY, STAGES, EPILOGUE_STAGES>), .pdl = true},
                 stream, p, cut.row_panels, TileX::map(in.B.data, p.N, p.K, in.B.ld),
                 map_y(cut.row_panels.short_box() + 8), map_y(cut.row_panels.short_box()),
                 c_map(p, 8));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {
    {"128x128 s6", launch<GemmArgs<T>, 128, 6, 2>, nullptr, launch<FusedArgs<T>, 128, 6, 2>},
    {"160x128 s5", launch<GemmArgs<T>, 160, 5, 2>, nullptr, launch<FusedArgs<T>, 160, 5, 2>},
    {"192x128 s5", launch<GemmArgs<T>, ROW_PANELS_128.tallest, 5, 1>, nullptr,
     launch<FusedArgs<T>, ROW_PANELS_128.tallest, 5, 1>}};

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  constexpr int TALLEST[] = {128, 160, ROW_PANELS_128.tallest};  // rows of a variant's tiles
  RowPanelChoice cut = choose_row_panels(p.M, p.N, ROW_PANELS_128, arch.sms);
  const int shortest = cut.tallest() > 160 ? 2 : cut.tallest() > 128;
  const double last_tile =
      arch.costs->transposed_epilogue + epilogue_waves(p, *arch.costs) * cut.tallest() * BX;
  const WgmmaCosts& c = arch.costs->wgmma;
  Reads reads = reads_of_passes(p, cut.passes());
  if (straddles_lines(p))
    reads.requests = double(p.M) * cut.columns() * requests_of_row(p.A, p.lda, c) +
                     p.M / cut.height() * p.N * requests_of_row(p.B, p.ldb, c);
  // A CTA's only tile is stored as it is. Later ones are transposed, which only a long K hides.
  const double results = arch.costs->row_panels[shortest] * cut.makespan(arch.sms) *
                         transposed_epilogues(p, *arch.costs, double(cut.waves(arch.sms)));
  Plan plan{.variant = variant == ANY_VARIANT ? shortest : variant,
            .makespan = persistent_us(p, arch, results + last_tile, 1, reads) +
                        second_reading_us(p, arch, cut.passes())};
  cut = choose_row_panels(
      p.M, p.N, {BX, ROW_PANELS_128.shortest, TALLEST[plan.variant], ROW_PANELS_128.group},
      arch.sms);
  plan.keep(cut);
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return plan.kept<RowPanelChoice>().why(plan.sms);
}

const Registration rung({.prev = "v24",
                         .idea = "uneven tiles: neighbouring heights that fill all waves",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, allows_row_panels}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, allows_row_panels})});

}  // namespace
