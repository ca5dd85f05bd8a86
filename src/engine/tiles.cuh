// The engine's kernel for equal tiles: ping-pong, for every layout, type, batch and epilogue.
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile         full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], tile issued
//
// The barriers of ping-pong. Taught in v27.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/ping_pong.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/tma_epilogue.cuh"
#include "engine/gemm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {

constexpr int GROUP_M = 16;  // rows of tiles per raster group, at most

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct TilesShared {                // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK) or, transposed, (STAGES, BM / 64, BK, 64)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Args: GemmArgs, or FusedArgs or GatedArgs for a kernel with the whole epilogue.
template <class Args, int CONFIGURATION, Major A_MAJOR, Major B_MAJOR, Products PRODUCTS>
__global__ void __launch_bounds__(CONFIGURATIONS[CONFIGURATION].threads(), 1)
    gemm_tiles(Args p, bool aligned_c, Raster raster, const __grid_constant__ TensorMap map_a,
               const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();  // first: CTAs take a while to start, 1 to 2 % at 512
  using T = typename Args::TypeA;
  using TC = typename Args::TypeC;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  constexpr int BM = CONFIG.bx, BN = CONFIG.by, STAGES = CONFIG.stages;
  constexpr int EPILOGUE_STAGES = CONFIG.epilogue_stages;
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  constexpr bool BATCH = PRODUCTS == Products::batch, GROUPS = PRODUCTS == Products::groups;
  constexpr bool MANY_B = BATCH || GROUPS;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  auto& s = *static_cast<TilesShared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();

  // Where B stays, every tile begins at the first stage, so that each k-tile of B has its own.
  PartPipelineState<STAGES> state{{raster.b_stays ? k_tiles : STAGES}};
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<CONFIG.producer_registers()>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    const bool one_a = p.batch.stride_a == 0, one_b = p.batch.stride_b == 0;  // for all products
    if (GROUPS) grid_dependency_wait();  // their ends may be another kernel's result
    int column = -1;                     // of tiles, whose columns of B are in shared memory
    for_each_tile_of_batch<PRODUCTS, BM, GROUP_M>(
        p, blockIdx.x, gridDim.x, tiles_m, tiles_n, raster,
        [&](int bm, int bn, int64_t, int product, RowRange rows) {
          grid_dependency_wait(bm, bn);  // after the first tile's coordinates have been computed
          const bool has_b = raster.b_stays && bn == column;
          column = bn;
          const auto load = [&](int stage, int k_tile) {
            const int k = k_tile * BK;
            uint64_t* const full = &s.full[stage];
            TileA::load(s.A[stage], matrix_of_batch<BATCH>(map_a, one_a ? 0 : product),
                        rows.first + bm * BM, k, full);
            if (has_b) return;
            TileB::load(s.B[stage], matrix_of_batch<MANY_B>(map_b, one_b ? 0 : product), bn * BN, k,
                        full);
          };
          load_k_tiles(s.full, s.empty, state, 0, k_tiles,
                       TileA::BYTES + (has_b ? 0 : TileB::BYTES), load);
        });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONFIG.consumer_registers()>();
  grid_dependency_wait();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  const auto compute = [&](int bm, int bn, int64_t left, int product, RowRange rows) {
    fence_operand(bm, bn);  // or they are divided out behind the loop: 3 % at 1024
    const auto& out = args_of<PRODUCTS>(p, product, rows);
    prefetch_c<BN>(out, aligned_c, rows.first + bm * BM, bn * BN, BM);
    touch_vectors<BN>(out, bn * BN);
    float acc[BM / MMA_X][BN / 2];
    multiply_in_turn<TileA, TileB>(s, state, wg, parity, other, k_tiles, acc);

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_X; ++i) {
      const int m = rows.first + bm * BM + i * MMA_X, n = bn * BN;
      // TMA would store the next group's rows, too.
      const bool cut = GROUPS && m + MMA_X > rows.end;
      fence_operand(acc[i]);
      apply_epilogue<BN <= 128 ? 64 : 32>(out, aligned_c, m, n, acc[i]);
      // No main loop hides the CTA's last tile.
      if constexpr (sizeof(TC) == 4) {  // a pair is 8 bytes: four lanes write a whole sector
        store_pairs(out, aligned_c, m, n, acc[i]);
      } else if (!Args::GATED && aligned_c && (cut || left <= gridDim.x)) {
        store_accumulators_aligned(out, m, n, acc[i]);
      } else {
        store_panels(out, aligned_c, matrix_of_batch<BATCH>(map_c, product), m, n, staging, i,
                     acc[i]);
      }
    }
  };
  const int first = blockIdx.x + wg * gridDim.x;
  for_each_tile_of_batch<PRODUCTS, BM, GROUP_M>(p, first, 2 * gridDim.x, tiles_m, tiles_n, raster,
                                                compute);
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
