// v24 pingpong: two warpgroups take turns at the tensor cores, each with its own tile.
//
// before: Both of v23's consumers end a tile at the same time. From the last wgmma of one tile to
//         the first of the next the tensor cores wait, about 4000 cycles.
// idea:   Consumer 1 computes a tile while consumer 0 stores the one before, and so on. Tiles may
//         then be smaller, and are chosen to fill the last wave. The next kernel's blocks start
//         when this one's end. Where a row pitch is no multiple of 128 bytes, clusters share the
//         k-tiles of B.
// watch:  A parity tells only neighbouring phases apart. So a consumer may wait for its k-tiles
//         only when the other has seen the last of its own.
// needs:  It needs sm_90a. Unaligned operands are copied first, an unaligned C is stored by rows.
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile         full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], after a tile
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of each CTA: of the consumer whose tile it is
//   order[wg]      4 arrivals, one of each warp of the other consumer
//
//   consumer 0  | tile 0 .......... | store | wait | tile 2 .......... | store |
//   consumer 1  | wait              | tile 1 .......... | store | wait | tile 3 ..........
#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_main_loop.cuh"
#include "engine/problem_of.h"
#include "plan/engine.h"
#include "plan/tiles.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64;  // depth of a k-tile; rows of a wgmma
constexpr int GROUP_M = 16;         // rows of tiles a raster group, at most
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK) or, transposed, (STAGES, BM / 64, BK, 64)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Args: GemmArgs, or FusedArgs or GatedArgs for a kernel with the whole epilogue.
template <class Args, Major A_MAJOR, Major B_MAJOR, int BM, int BN, int STAGES, int EPILOGUE_STAGES,
          int CLUSTER, Products PRODUCTS>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v24(Args p, bool aligned_c, Raster raster, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();  // first: CTAs take a while to start, 1 to 2 % at 512
  using T = typename Args::TypeA;
  using TC = typename Args::TypeC;
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  constexpr bool BATCH = PRODUCTS == Products::batch, GROUPS = PRODUCTS == Products::groups;
  constexpr bool MANY_B = BATCH || GROUPS;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  const int begin = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, step = gridDim.x / CLUSTER;
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, CLUSTER);
  }
  sync_cluster<CLUSTER>();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    const bool one_a = p.batch.stride_a == 0, one_b = p.batch.stride_b == 0;  // for all products
    if (GROUPS) grid_dependency_wait();  // their ends may be another kernel's result
    for_each_tile_of_batch<PRODUCTS, BM, GROUP_M, CLUSTER>(
        p, begin, step, rank, tiles_m, tiles_n, raster,
        [&](int bm, int bn, int64_t, int product, RowRange rows) {
          grid_dependency_wait(bm, bn);  // after the first tile's coordinates have been computed
          produce_shared<TileA, TileB, CLUSTER>(s.A[0], s.B[0], s.full, s.empty, state,
                                                matrix_of_batch<BATCH>(map_a, one_a ? 0 : product),
                                                matrix_of_batch<MANY_B>(map_b, one_b ? 0 : product),
                                                rows.first + bm * BM, bn * BN, k_tiles, rank);
        });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  // [region idea]
  const auto compute = [&](int bm, int bn, int64_t left, int product, RowRange rows) {
    fence_operand(bm, bn);  // or they are divided out behind the loop: 3 % at 1024
    const auto& out = args_of<PRODUCTS>(p, product, rows);
    prefetch_c<BN>(out, aligned_c, rows.first + bm * BM, bn * BN, BM);
    touch_vectors<BN>(out, bn * BN);
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity);
    parity ^= 1;
    const auto multiply = [&](int stage, int k_tile) {
      multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage]);
      // The other consumer's wgmma may queue up behind these.
      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);
    };
    const int last = multiply_k_tiles<CLUSTER>(s.full, s.empty, state, k_tiles, multiply);
    finish_k_tiles<CLUSTER>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = rows.first + bm * BM + i * MMA_M, n = bn * BN;
      // TMA would store the next group's rows, too.
      const bool cut = GROUPS && m + MMA_M > rows.end;
      fence_operand(acc[i]);
      apply_epilogue<BN <= 128 ? 64 : 32>(out, aligned_c, m, n, acc[i]);
      // No main loop hides the CTA's last tile. (`step` in place of gridDim.x would spill.)
      if constexpr (sizeof(TC) == 4) {  // a pair is 8 bytes: four lanes write a whole sector
        store_pairs(out, aligned_c, m, n, acc[i]);
      } else if (!Args::GATED && aligned_c && (cut || left * CLUSTER <= gridDim.x)) {
        store_accumulators_aligned(out, m, n, acc[i]);
      } else {
        store_panels(out, aligned_c, matrix_of_batch<BATCH>(map_c, product), m, n, staging, i,
                     acc[i]);
      }
    }
  };
  for_each_tile_of_batch<PRODUCTS, BM, GROUP_M, CLUSTER>(p, begin + wg * step, 2 * step, rank,
                                                         tiles_m, tiles_n, raster, compute);
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
  if (CLUSTER > 1) sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

// Tiles of bm x bn of a whole batch; of groups, whose last rows of tiles may each be cut, the most.
template <class T, class TC>
int64_t tiles_of_batch(const GemmArgs<T, T, TC>& p, int bm, int bn) {
  const int64_t rows = cdiv(p.M, bm), products = p.batch.count;
  return (p.batch.ends == nullptr ? rows * products : rows + products) * cdiv(p.N, bn);
}

// Whether there is a kernel for these layouts. A group of a transposed A begins at any column, and
// TMA wants one at a multiple of 16 bytes. Batches of two transposed operands are rare.
constexpr bool takes_majors(Products products, Major a, Major b) {
  return products == Products::one || a == Major::K ||
         (products == Products::batch && b == Major::MN);
}

// Whether one launch computes a batch: TMA can address all products, and an int counts their tiles.
template <class T>
bool fits_in_one_launch(const GemmArgs<T>& p) {
  return tma_can_address(p.A, p.lda) && tma_can_address(p.B, p.ldb) &&
         p.batch.stride_a * sizeof(T) % 16 == 0 && p.batch.stride_b * sizeof(T) % 16 == 0 &&
         takes_majors(p.batch.ends == nullptr ? Products::batch : Products::groups,
                      p.op_a == Op::N ? Major::K : Major::MN,
                      p.op_b == Op::N ? Major::MN : Major::K) &&
         tiles_of_batch(p, 64, 128) < 1 << 30;
}

// Rows of tiles a raster group. With a short K storing C decides: one row of tiles after the other,
// so that whole rows of C are stored at a time, which memory takes up to a tenth faster.
int rows_of_group(int K) { return K <= 2 * BK ? 1 : GROUP_M; }

template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER,
          Products PRODUCTS = Products::one>
void launch_args(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  if constexpr (!Args::FUSED && PRODUCTS == Products::one)
    if (!p.batch.is_single()) {
      if constexpr (CLUSTER == 1 && std::is_same_v<T, typename Args::TypeC>)
        if (fits_in_one_launch(p)) {
          constexpr Products BATCH = Products::batch, GROUPS = Products::groups;
          if (p.batch.ends == nullptr)
            return launch_args<Args, BM, BN, STAGES, EPILOGUE_STAGES, 1, BATCH>(p, plan, stream);
          return launch_args<Args, BM, BN, STAGES, EPILOGUE_STAGES, 1, GROUPS>(p, plan, stream);
        }
      return for_each_product(p, stream, [&](const Args& one) {
        launch_args<Args, BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER>(one, plan, stream);
      });
    }
  const int64_t cluster_tiles = tiles_of_batch(p, BM * CLUSTER, BN);
  // A pair of CTAs with neighbouring tiles is launched as a cluster, so that it has a TPC alone.
  const Pairs pairs =
      CLUSTER == 1 && PRODUCTS == Products::one ? plan.kept<Tiling>().pairs : Pairs::none;
  const int cluster = pairs == Pairs::none ? CLUSTER : 2;
  const int64_t units = pairs == Pairs::none ? cluster_tiles : (cluster_tiles + 1) / 2;
  const int64_t grid = std::min<int64_t>(units, plan.ctas / cluster) * cluster;
  const Raster raster{raster_group_size(std::max(cdiv(cdiv(p.M, BM), CLUSTER), 1),
                                        std::max(rows_of_group(p.K) / CLUSTER, 1)),
                      pairs == Pairs::rows ? 2 : 1};
  const TmaOperands<T> in(p, stream);
  const auto batch = [&](bool has_several, int64_t stride) {
    return has_several ? MatrixBatch{p.batch.count, stride} : MatrixBatch{};
  };
  constexpr bool BATCH = PRODUCTS == Products::batch, GROUPS = PRODUCTS == Products::groups;
  const auto with_tiles = [&](auto a, auto b) {
    using TileA = OperandTile<T, BM, a()>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(gemm_v24<Args, a(), b(), BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER, PRODUCTS>, grid,
                 dim3(THREADS),
                 {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>),
                  .cluster = cluster,
                  .pdl = true},
                 stream, p, has_aligned_c(with_columns_of_d(p)), raster,
                 TileA::map(in.A.data, p.M, p.K, in.A.ld, 256, batch(BATCH, p.batch.stride_a)),
                 TileB::template map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld, 256,
                                              batch(BATCH || GROUPS, p.batch.stride_b)),
                 c_map(with_columns_of_d(p), 16, batch(BATCH, p.batch.stride_c)));
  };
  with_majors(p, [&](auto a, auto b) {
    if constexpr (takes_majors(PRODUCTS, a(), b())) with_tiles(a, b);
  });
}

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER, class TC = T>
void launch(const GemmArgs<T, T, TC>& p, const Plan& plan, Stream stream) {
  launch_args<GemmArgs<T, T, TC>, BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER>(p, plan, stream);
}
template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch_fused(const Args& p, const Plan& plan, Stream stream) {
  launch_args<Args, BM, BN, STAGES, EPILOGUE_STAGES, 1>(p, plan, stream);
}

// Results in float: one configuration, and a launch for each product.
template <class T>
void launch_to_float(const GemmArgs<T, T, float>& p, Stream stream) {
  launch<T, 128, 128, 6, 2, 1, float>(p, Plan{.ctas = persistent_blocks()}, stream);
}

// Fused kernels have no clusters: what they win is less than an epilogue pass costs.
template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER>
constexpr Variant<T> variant(const char* name) {
  return {name,
          launch<T, BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER>,
          nullptr,
          launch_fused<FusedArgs<T>, BM, BN, STAGES, EPILOGUE_STAGES>,
          launch_fused<GatedArgs<T>, BM, BN, STAGES, EPILOGUE_STAGES>,
          has_rows_of_a};
}
template <class T>
const Variant<T> VARIANTS[] = {
    variant<T, 128, 192, 5, 1, 1>("128x192 s5"),    variant<T, 128, 128, 6, 2, 1>("128x128 s6"),
    variant<T, 64, 128, 8, 2, 1>("64x128 s8"),      variant<T, 128, 192, 5, 1, 2>("128x192 s5 c2"),
    variant<T, 128, 128, 6, 2, 2>("128x128 s6 c2"), variant<T, 64, 128, 8, 2, 2>("64x128 s8 c2")};

// These tiles, and what a result costs in each; then those of two CTAs, one above the other.
// Measured: plots/NOTES.md.
constexpr TileCost TILES[] = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.25}};
constexpr TileCost CLUSTER_TILES[] = {{256, 192, 1.0}, {256, 128, 1.26}, {128, 128, 1.47}};
constexpr int WHOLE = std::size(TILES);

// A product's rows in the plan. It knows those of all groups together: it takes them as equal.
template <class T>
int rows_of_product(const GemmArgs<T>& p) {
  return p.batch.ends == nullptr ? p.M : cdiv(p.M, p.batch.count);
}
// CTAs on one GPC that compute neighbours ask L2 together for common rows and columns: up to a
// quarter faster where a few tiles with a long K ask for most. Measured: pairs lie along the side
// with fewer tiles. Few tiles rather have a TPC each; in many waves CTAs drift apart.
template <class T>
Pairs choose_pairs(const FusedArgs<T>& p, const Arch& arch, const Tiling& tiling) {
  if (tiling.cluster > 1 || straddles_lines(p) || !p.batch.is_single() ||
      tiling.tiles * 2 <= arch.sms || tiling.tiles > 3 * arch.sms)
    return Pairs::none;
  return cdiv(p.M, tiling.bm) >= cdiv(p.N, tiling.bn) ? Pairs::rows : Pairs::columns;
}

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const int M = rows_of_product(p);
  const bool in_one_launch = !p.batch.is_single() && fits_in_one_launch(p);
  // Clusters pay where rows straddle 128-byte lines. Neither fused kernels nor a batch's have any.
  const bool fused = wants_fused(p.fused) && has_rows_of_a(p);
  const bool clusters = variant == ANY_VARIANT
                            ? straddles_lines(p) && M > 128 && !fused && !in_one_launch
                            : variant >= WHOLE;
  const int products = in_one_launch && !clusters ? p.batch.count : 1;
  const int of_these = clusters && variant != ANY_VARIANT ? variant - WHOLE : variant;
  TileChoice tile = clusters ? choose_tile(M, p.N, CLUSTER_TILES, WHOLE, arch.sms / 2, of_these)
                             : choose_tile(M, p.N, TILES, WHOLE, arch.sms, of_these, products);
  tile.tiling.cluster = clusters ? 2 : 1;
  tile.tiling.pairs = choose_pairs(p, arch, tile.tiling);
  PlannedProblem problem = problem_of(p);
  problem.M = M, problem.products = products;
  const double us = engine::whole_tiles_us(problem, arch, tile.tiling.bm / tile.tiling.cluster,
                                           tile.tiling.bn, tile.tiling.cluster);
  Plan plan{.variant = tile.index + (clusters ? WHOLE : 0),
            .makespan = us * (p.batch.count / products)};
  plan.keep(tile.tiling);
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  const Tiling tiling = plan.kept<Tiling>();
  const std::string products = std::to_string(p.batch.count);
  if (p.batch.ends != nullptr)
    return products + " groups, tiles of " + std::to_string(tiling.bm) + " x " +
           std::to_string(tiling.bn) +
           (tiling.cluster == 1 && fits_in_one_launch(p) ? " in one launch" : ", a launch each");
  return gemm::explain(tiling) + (p.batch.count == 1 ? ""
                                  : tiling.cluster == 1 && fits_in_one_launch(p)
                                      ? ", of " + products + " products"
                                      : " in each of " + products + " launches");
}

const Registration rung(
    {.prev = "v23",
     .idea = "pingpong: two warpgroups take turns; tiles that fill the waves",
     .needs = {.sm = 90, .exact_arch = true, .transposed = true, .batches = true, .groups = true}},
    {f16(VARIANTS<half>, {plan, explain}), bfloat16(VARIANTS<bf16>, {plan, explain}),
     entry(DType::f16_f32, launch_to_float<half>), twin(DType::bf16_f32, launch_to_float<bf16>)});

}  // namespace
