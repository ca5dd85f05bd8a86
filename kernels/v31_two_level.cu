// v31 two-level sums: partial sums of 128 of k, added up in float.
//
// before: v30's tensor cores keep 14 bits of a sum. The longer it grows, the more of each product
//         is cut, always towards zero
// idea:   each k-tile's products start a new sum, which ends after 128 of k; CUDA cores add it to
//         one of 24 bits. While one consumer adds, the other one's wgmma run
// watch:  two sums take twice the registers, so a consumer has 64 rows; and both have the same
//         tile, or more bytes would be loaded for each result
// needs:  sm_90a; copies of operands that are not K-major, or that TMA cannot address
//
//   role        threads   waits for     then                                     and tells
//   producer    one       empty[stage]  loads a k-tile                           full[stage], bytes
//   consumers   2 x 128   full[stage]   wgmma of 64 rows, from zero; then adds   empty[stage]
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   2 arrivals, one of each consumer
//
//   consumer 0    | wgmma, k-tile 0 | add | wait | wgmma, k-tile 1 | add | ...
//   consumer 1    | wait            | wgmma, k-tile 0 | add | wait | wgmma, k-tile 1 | add ...
#include <string>

#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/k_major.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/promotion.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "plan/tiles.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 128, MMA_M = 64;  // depth of a k-tile; rows of a wgmma, and of a consumer
constexpr int GROUP_M = 16;          // rows of tiles that are worked on together
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(BK == PROMOTED_K, "verification allows for sums of so many");

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {  // panels start at multiples of 1024 bytes
  static constexpr int CONSUMERS = TileA::EXTENT / MMA_M;
  uint8_t A[STAGES][TileA::BYTES];                     // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];                     // (STAGES, BN, BK), swizzled
  uint8_t C[CONSUMERS][EPILOGUE_STAGES][64 * 64 * 2];  // (.., EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES];
};

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts>
__global__ void __launch_bounds__((BM / MMA_M + 1) * 128, 1)
    gemm_v31(Args p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();
  using T = typename Args::TypeA;
  using TC = typename Args::TypeC;
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  static_assert(TileA::DEPTH == BK);
  constexpr int CONSUMERS = BM / MMA_M;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_pipeline<STAGES>(s.full, s.empty, CONSUMERS);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 == 0 && elect_one())
      for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
        grid_dependency_wait(bm, bn);
        produce<TileA, TileB>(s.A[0], s.B[0], s.full, s.empty, state, map_a, map_b, bm * BM,
                              bn * BN, 0, k_tiles);
      });
  } else {
    // A consumer: its rows of every tile.
    setmaxnreg_inc<CONSUMER_REGS>();
    grid_dependency_wait();
    for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
      fence_operand(bm, bn);
      const int m = bm * BM + wg * MMA_M, n = bn * BN;
      prefetch_c<BN>(p, aligned_c, m, n, MMA_M);
      touch_vectors<BN>(p, n);
      // [region idea]
      float sum[1][BN / 2];
      clear_registers(sum);
      const auto promote = [&]<int COUNT>(int first, const float(&part)[COUNT], int) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum[0][first + i] += part[i];
      };
      multiply_promoted<TileA, TileB, Parts, 128>(
          s, state, k_tiles, wg * MMA_M, [](int, int) {}, promote);
      // [/region idea]

      // Epilogue.
      apply_epilogue<32>(p, aligned_c, m, n, sum[0]);
      if constexpr (sizeof(TC) == 4)
        store_pairs(p, aligned_c, m, n, sum[0]);
      else
        store_panels(p, aligned_c, map_c, m, n, s.C[wg], 0, sum[0]);
    });
    if (tid % 32 == 0) tma_store_wait_read<0>();
  }
}

template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts>
void launch_args(const Args& p, const Plan& plan, Stream stream) {
  using T = typename Args::TypeA;
  const int64_t grid = std::min(int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN), int64_t{plan.ctas});
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  const KMajorOperands<T> in(p, stream);
  gemm::launch(gemm_v31<Args, BM, BN, STAGES, EPILOGUE_STAGES, Parts>, grid,
               dim3((BM / MMA_M + 1) * 128),
               {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>), .pdl = true}, stream,
               p, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               TileB::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
}
template <class T, class TC, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts = OnePart>
void launch(const GemmArgs<T, T, TC>& p, const Plan& plan, Stream stream) {
  launch_args<GemmArgs<T, T, TC>, BM, BN, STAGES, EPILOGUE_STAGES, Parts>(p, plan, stream);
}
template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts = OnePart>
void launch_fused(const FusedArgs<T, T, bf16>& p, const Plan& plan, Stream stream) {
  launch_args<FusedArgs<T, T, bf16>, BM, BN, STAGES, EPILOGUE_STAGES, Parts>(p, plan, stream);
}

// The variants: their tiles, and what a result costs in each.
constexpr TileCost TILES[] = {
    {128, 128, 1.1}, {128, 192, 1.0}, {128, 256, 1.04}, {64, 128, 1.6}, {64, 64, 2.2}};

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts = OnePart>
constexpr Variant<T, bf16> variant(const char* name) {
  return {name, launch<T, bf16, BM, BN, STAGES, EPILOGUE_STAGES, Parts>, nullptr,
          launch_fused<T, BM, BN, STAGES, EPILOGUE_STAGES, Parts>};
}
constexpr Variant<f8e4m3, bf16> E4M3[] = {variant<f8e4m3, 128, 128, 6, 2>("128x128 s6"),
                                          variant<f8e4m3, 128, 192, 4, 3, Overlap>("128x192 s4"),
                                          variant<f8e4m3, 128, 256, 4, 2, Halves>("128x256 s4"),
                                          variant<f8e4m3, 64, 128, 8, 2, Overlap>("64x128 s8"),
                                          variant<f8e4m3, 64, 64, 12, 1>("64x64 s12")};
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

const Registration rung({.prev = "v30",
                         .idea = "two-level sums: 128 of k on tensor cores, the rest in float",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {entry(DType::e4m3, E4M3, Planner<f8e4m3, bf16>{plan, explain, false}),
                         entry(DType::e4m3_f32, launch_to_float<f8e4m3>),
                         twin(DType::e5m2, SQUARE<f8e5m2>,
                              Planner<f8e5m2, bf16>{plan, explain, false})});

}  // namespace
