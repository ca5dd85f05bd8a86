// v30 FP8: the ping-pong pipeline on 8-bit operands, at twice the rate.
//
// before: v24 multiplies 16-bit numbers; a k-tile of 128 bytes a row is 64 deep
// idea:   in the same 128 bytes lie 128 numbers of 8 bits, and one wgmma takes 32 of k in the time
//         of 16. Loads, swizzle, barriers and stores are v24's, byte by byte
// watch:  the sums. Tensor cores keep 14 bits of them: a fast sum, which the type's name says.
//         wgmma takes FP8 along K alone: a kernel transposes what is not K-major
// needs:  sm_90a; copies of operands that are not K-major, or that TMA cannot address
//
//   role        threads   waits for               then                   and tells
//   producer    one       empty[stage]            loads a k-tile         full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles   empty[stage], a k-tile on;
//                                                                        order[other], tile issued
//
// Barriers and the timeline are v24's. A whole tensor has one scale: multiply it into alpha.
#include <string>

#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/k_major.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "device/wgmma_main_loop.cuh"
#include "plan/tiles.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 128, MMA_M = 64;  // depth of a k-tile; rows of a wgmma
constexpr int GROUP_M = 16;          // rows of tiles that are worked on together
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {                                // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];             // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];             // (STAGES, BN, BK), swizzled
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v30(Args p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();
  using T = typename Args::TypeA;
  using TC = typename Args::TypeC;
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  static_assert(TileA::DEPTH == BK);
  constexpr int AT_ONCE = BN == 128 ? 64 : BN == 192 ? 16 : 32;  // more results of 192 would spill
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
      grid_dependency_wait(bm, bn);
      produce<TileA, TileB>(s.A[0], s.B[0], s.full, s.empty, state, map_a, map_b, bm * BM, bn * BN,
                            0, k_tiles);
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
  const auto compute = [&](int bm, int bn, int64_t left) {
    fence_operand(bm, bn);
    prefetch_c<BN>(p, aligned_c, bm * BM, bn * BN, BM);
    touch_vectors<BN>(p, bn * BN);
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity);
    parity ^= 1;
    const auto multiply = [&](int stage, int k_tile) {
      // Four wgmma of 32 k each, as v24's of 16: 128 bytes of every row.
      multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage]);
      if (k_tile == k_tiles - 1 && tid % 32 == 0) mbarrier_arrive(other);
    };
    const int last = multiply_k_tiles<1>(s.full, s.empty, state, k_tiles, multiply);
    finish_k_tiles<1>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = bm * BM + i * MMA_M, n = bn * BN;
      fence_operand(acc[i]);
      apply_epilogue<AT_ONCE>(p, aligned_c, m, n, acc[i]);
      if constexpr (sizeof(TC) == 4) {
        store_pairs(p, aligned_c, m, n, acc[i]);
      } else if (aligned_c && left <= gridDim.x) {  // the CTA's last tile
        store_accumulators_aligned(p, m, n, acc[i]);
      } else {
        store_panels(p, aligned_c, map_c, m, n, staging, i, acc[i]);
      }
    }
  };
  // [/region idea]
  for_each_tile<GROUP_M>(blockIdx.x + wg * gridDim.x, 2 * gridDim.x, tiles_m, tiles_n, compute);
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch_args(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  const int64_t grid = std::min(int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN), int64_t{plan.ctas});
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  const KMajorOperands<T> in(p, stream);
  gemm::launch(gemm_v30<Args, BM, BN, STAGES, EPILOGUE_STAGES>, grid, dim3(THREADS),
               {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>), .pdl = true}, stream,
               p, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               TileB::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
}
template <class T, class TC, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch(const GemmArgs<T, T, TC>& p, const Plan& plan, Stream stream) {
  launch_args<GemmArgs<T, T, TC>, BM, BN, STAGES, EPILOGUE_STAGES>(p, plan, stream);
}
template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch_fused(const FusedArgs<T, T, bf16>& p, const Plan& plan, Stream stream) {
  launch_args<FusedArgs<T, T, bf16>, BM, BN, STAGES, EPILOGUE_STAGES>(p, plan, stream);
}

// The variants: their tiles, and what a result costs in each.
constexpr TileCost TILES[] = {{128, 128, 1.05}, {128, 192, 1.0}, {64, 128, 1.6}, {64, 64, 2.2}};

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
constexpr Variant<T, bf16> variant(const char* name) {
  return {name, launch<T, bf16, BM, BN, STAGES, EPILOGUE_STAGES>, nullptr,
          launch_fused<T, BM, BN, STAGES, EPILOGUE_STAGES>};
}
constexpr Variant<f8e4m3, bf16> E4M3[] = {
    variant<f8e4m3, 128, 128, 6, 2>("128x128 s6"), variant<f8e4m3, 128, 192, 5, 1>("128x192 s5"),
    variant<f8e4m3, 64, 128, 8, 2>("64x128 s8"), variant<f8e4m3, 64, 64, 12, 1>("64x64 s12")};
// cuBLASLt does not multiply e5m2 by e5m2: one variant for those who must. A template, which is not
// compiled where e5m2 is left out.
template <class T>
constexpr Variant<T, bf16> SQUARE[] = {variant<T, 128, 128, 6, 2>("128x128 s6")};
static_assert(std::size(TILES) == std::size(E4M3));

template <class T>
Plan plan(const FusedArgs<T, T, bf16>& p, const Arch& arch, int variant) {
  constexpr int COUNT = std::is_same_v<T, f8e5m2> ? 1 : std::size(E4M3);
  const TileChoice tile = choose_tile(p.M, p.N, TILES, COUNT, arch.sms, variant);
  Plan plan{.variant = tile.index};
  plan.keep(tile.tiling);
  return plan;
}

template <class T>
std::string explain(const GemmArgs<T, T, bf16>&, const Plan& plan) {
  return gemm::explain(plan.kept<Tiling>());
}

// Results in float: one configuration.
template <class T>
void launch_to_float(const GemmArgs<T, T, float>& p, Stream stream) {
  launch<T, float, 128, 128, 6, 2>(p, Plan{.ctas = persistent_blocks()}, stream);
}

const Registration rung({.prev = "v24",
                         .idea = "FP8: twice the rate, of sums that keep 14 bits",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {entry(DType::e4m3_fast, E4M3, Planner<f8e4m3, bf16>{plan, explain, false}),
                         entry(DType::e4m3_f32_fast, launch_to_float<f8e4m3>),
                         twin(DType::e5m2_fast, SQUARE<f8e5m2>,
                              Planner<f8e5m2, bf16>{plan, explain, false})});

}  // namespace
