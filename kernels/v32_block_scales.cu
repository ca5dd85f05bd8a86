// v32 block scales: each 128 of k has its own scale, multiplied where sums are promoted.
//
// before: one scale for a whole matrix has to fit its largest element, and e4m3 has 4 bits: beside
//         an outlier all others are rounded to few values, or to 0
// idea:   a scale for each 1 x 128 of A and 128 x 128 of B. Where v31 adds a k-tile's sums, they
//         are multiplied first: an FMA in the place of an addition
// watch:  when scales come. A k-tile's wgmma must not wait for them: A's come with the k-tile, and
//         a warp reads them when the tensor cores have been given their work
// needs:  sm_90a; copies of operands that are not K-major, or that TMA cannot address; of A's
//         scales, too
//
//   role        threads   waits for     then                                    and tells
//   producer    one       empty[stage]  loads a k-tile and A's scales           full[stage], bytes
//   consumers   2 x 128   full[stage]   wgmma of 64 rows, from zero; scales;    empty[stage]
//                                       FMAs
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   8 arrivals, one of each consumer warp: all read scales
//
// The timeline is v31's. Scales of A lie along m: scale_a[k / 128][m]. Those of B lie along k:
// scale_b[n / 128][k / 128]. Both are as cuBLASLt has them, with a pitch besides.
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
#include "device/repack.cuh"
#include "device/tma_epilogue.cuh"
#include "plan/tiles.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 128, MMA_M = 64;  // depth of a k-tile; rows of a wgmma, and of a consumer
constexpr int GROUP_M = 16;          // rows of tiles that are worked on together
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(BK == BlockScales::K, "a k-tile has one scale");

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {  // panels start at multiples of 1024 bytes
  static constexpr int CONSUMERS = TileA::EXTENT / MMA_M;
  uint8_t A[STAGES][TileA::BYTES];                     // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];                     // (STAGES, BN, BK), swizzled
  uint8_t C[CONSUMERS][EPILOGUE_STAGES][64 * 64 * 2];  // (.., EPILOGUE_STAGES, 64, 64), swizzled
  float scales[STAGES][TileA::EXTENT];                 // (STAGES, BM): A's
  uint64_t full[STAGES], empty[STAGES];
};

// [region idea]
// The scales of a thread's sums: of its two rows, and of its tile's blocks of columns.
template <int BN>
class ThreadScales {
  // A tile of 192 columns begins or ends in the middle of a block: its columns are three times 64.
  static constexpr int COLUMNS = BN % BlockScales::N == 0 ? BlockScales::N : 64;  // of one scale
  static constexpr int COUNT = BN / COLUMNS, BLOCKS = cdiv(BN, BlockScales::N);
  static_assert(BN % COLUMNS == 0 && (COLUMNS == BlockScales::N || COUNT == 1 || COUNT == 3));
  const float* block_[BLOCKS];  // B's, of k-tile 0
  bool begins_in_the_middle_;
  float scale_[COUNT][2];

 public:
  // For columns n to n + BN. A block beyond the last one has that one's scales.
  template <class Args>
  GEMM_DEVICE ThreadScales(const Args& p, int n) {
    const int first = n / BlockScales::N, last = (p.N - 1) / BlockScales::N;
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i)
      block_[i] = p.scales.b + (first + i < last ? first + i : last) * p.scales.ldb;
    begins_in_the_middle_ = n % BlockScales::N != 0;
  }

  // Multiplies a k-tile's scales: of the 64 rows at `rows` in shared memory, and of B's blocks,
  // which lie along k: 32 k-tiles are a line of L1. After the k-tile's wgmma have been issued.
  GEMM_DEVICE void load(const float* rows, int k_tile) {
    const int first = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const float row[2] = {rows[first], rows[first + 8]};
    float block[BLOCKS];
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) block[i] = block_[i][k_tile];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const bool second = COUNT == 3 && (i == 2 || (i == 1 && begins_in_the_middle_));
      const float column = COUNT != 3 ? block[i] : second ? block[1] : block[0];
#pragma unroll
      for (int j = 0; j < 2; ++j) scale_[i][j] = row[j] * column;
    }
  }

  // Adds the scaled partial sums of the accumulators from `first` on.
  template <int PART, int ALL>
  GEMM_DEVICE void add_scaled(int first, const float (&part)[PART], float (&sum)[ALL]) const {
#pragma unroll
    for (int i = 0; i < PART; ++i)  // four sums each 8 columns: two of either row
      sum[first + i] += scale_[(first + i) * 2 / COLUMNS][i / 2 % 2] * part[i];
  }
};
// [/region idea]

// Args: GemmArgs, or FusedArgs for a kernel with the whole epilogue.
template <class Args, int BM, int BN, int STAGES, int EPILOGUE_STAGES, class Parts>
__global__ void __launch_bounds__((BM / MMA_M + 1) * 128, 1)
    gemm_v32(Args p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
             const __grid_constant__ TensorMap map_scales) {
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
    init_pipeline<STAGES>(s.full, s.empty, CONSUMERS * 4);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 == 0 && elect_one())
      for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
        grid_dependency_wait(bm, bn);
        const auto load = [&](int stage, int k_tile) {
          uint64_t* const full = &s.full[stage];
          TileA::load(s.A[stage], map_a, bm * BM, k_tile * BK, full);
          TileB::load(s.B[stage], map_b, bn * BN, k_tile * BK, full);
          tma_load(s.scales[stage], map_scales, k_tile, bm * BM, full);
        };
        load_k_tiles(s.full, s.empty, state, 0, k_tiles,
                     TileA::BYTES + TileB::BYTES + int{sizeof(s.scales[0])}, load);
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
      float sum[1][BN / 2];
      clear_registers(sum);
      ThreadScales<BN> scales(p, n);
      const auto load = [&](int stage, int k_tile) {
        scales.load(&s.scales[stage][wg * MMA_M], k_tile);
      };
      const auto promote = [&]<int COUNT>(int first, const float(&part)[COUNT], int) {
        scales.add_scaled(first, part, sum[0]);
      };
      multiply_promoted<TileA, TileB, Parts, 32>(s, state, k_tiles, wg * MMA_M, load, promote);

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
  // A's scales as TMA takes them: a copy, where rows are no multiples of 16 bytes. Where a launch
  // is only prepared nobody knows, and at most there is one. K = 0 has none.
  const int k_tiles = cdiv(p.K, BK);
  const MatrixView<float> none{nullptr, 0, p.M, cdiv(p.M, 4) * 4};
  const MatrixView<float> given{p.scales.a, k_tiles, p.M, launch_mode().prepare ? 1 : p.scales.lda};
  const RepackedPair<float> scales(k_tiles == 0 ? none : given, none, stream);
  gemm::launch(gemm_v32<Args, BM, BN, STAGES, EPILOGUE_STAGES, Parts>, grid,
               dim3((BM / MMA_M + 1) * 128),
               {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>), .pdl = true}, stream,
               p, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               TileB::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16),
               tensor_map(scales.A.data, k_tiles, p.M, scales.A.ld, 1, BM, Swizzle::none));
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
    {128, 256, 1.0}, {128, 192, 1.0}, {128, 128, 1.15}, {64, 128, 1.6}, {64, 64, 2.2}};

template <class T>
const Variant<T, bf16> VARIANTS[] = {
    {"128x256 s4", launch<T, bf16, 128, 256, 4, 2, Halves>, nullptr,
     launch_fused<T, 128, 256, 4, 2, Halves>},
    {"128x192 s4", launch<T, bf16, 128, 192, 4, 3, Overlap>, nullptr,
     launch_fused<T, 128, 192, 4, 3, Overlap>},
    {"128x128 s5", launch<T, bf16, 128, 128, 5, 2>, nullptr, launch_fused<T, 128, 128, 5, 2>},
    {"64x128 s8", launch<T, bf16, 64, 128, 8, 2, Overlap>, nullptr,
     launch_fused<T, 64, 128, 8, 2, Overlap>},
    {"64x64 s12", launch<T, bf16, 64, 64, 12, 1>, nullptr, launch_fused<T, 64, 64, 12, 1>}};
static_assert(std::size(TILES) == std::size(VARIANTS<f8e4m3>));

template <class T>
Plan plan(const FusedArgs<T, T, bf16>& p, const Arch& arch, int variant) {
  const TileChoice tile = choose_tile(p.M, p.N, TILES, std::size(TILES), arch.sms, variant);
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
  launch<T, float, 128, 128, 5, 2>(p, Plan{.ctas = persistent_blocks()}, stream);
}

const Registration rung({.prev = "v31",
                         .idea = "block scales: 1x128 of A, 128x128 of B, where sums are promoted",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {entry(DType::e4m3_block, VARIANTS<f8e4m3>,
                               Planner<f8e4m3, bf16>{plan, explain, false}),
                         entry(DType::e4m3_f32_block, launch_to_float<f8e4m3>)});

}  // namespace
