// v21 persistent: one CTA per SM, which takes tile after tile.
//
// before: v20's CTAs start, fill the pipeline, multiply, store and end, one after the other. No
//         load is in flight while a CTA stores, and no wgmma while the next one fills the pipeline.
// idea:   There are as many CTAs as SMs. A CTA's next tile is the one gridDim.x further. The
//         producer does not know where a tile ends: while consumers store, it loads the next tile.
// watch:  The first k-tiles of all tiles but the first are there when they are needed. What is left
//         between two tiles is the epilogue, in which the tensor cores wait.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
//
//   role        threads   waits for      then                          and tells
//   producer    one       empty[stage]   loads 128 x 64 and 64 x 256   full[stage], TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma m64n256k16            empty[stage], a k-tile later
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   2 arrivals, one of each consumer
//
//   producer    | tile 0: k-tiles 0 1 2 ... | tile 1: k-tiles 0 1 2 3 | 4 ...
//   consumers           | tile 0: k-tiles 0 1 2 ...         | store | tile 1: k-tiles 0 1 ...
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64;                               // rows of one wgmma, BN wide
constexpr int GROUP_M = 16;                             // rows of tiles that are worked on together
constexpr int CONSUMERS = BM / MMA_M;                   // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;  // and the producer's: 168 registers per thread
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(PRODUCER_REGS + CONSUMERS * CONSUMER_REGS <= 3 * 168, "what a CTA gets at launch");

// [region idea]
// CTAs of a persistent kernel: one per SM. The simulator takes 4, so that small problems give each
// of them several tiles.
inline int persistent_blocks() { return current_arch().ctas; }

// Calls work(m, n) for every `step`-th tile from `first` on.
template <int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  for (int64_t tile = first; tile < int64_t{tiles_m} * tiles_n; tile += step) {
    const auto [m, n] = grouped_tile<GROUP_M>(tile, tiles_m, tiles_n);
    work(m, n);
  }
}
// [/region idea]

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK)
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64)
  uint64_t full[STAGES], empty[STAGES];
};

__global__ void __launch_bounds__(THREADS, 1)
    gemm_v21(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  // Where am I?
  const int tid = threadIdx.x, wg = tid / 128, k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);

  // The pipeline.
  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS);
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
        const int stage = state.stage;
        mbarrier_wait(&s.empty[stage], state.phase ^ 1);
        mbarrier_arrive_expect_tx(&s.full[stage], TileA::BYTES + TileB::BYTES);
        TileA::load(s.A[stage], map_a, bm * BM, k_tile * BK, &s.full[stage]);
        TileB::load(s.B[stage], map_b, bn * BN, k_tile * BK, &s.full[stage]);
      }
    });
    return;
  }

  // A consumer.
  setmaxnreg_inc<CONSUMER_REGS>();
  for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
    float acc[BN / 2] = {};
    int last = 0;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
      const int stage = state.stage;
      mbarrier_wait(&s.full[stage], state.phase);
      multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage], wg * MMA_M);
      wgmma_wait<1>();
      if (tid % 128 == 0 && k_tile > 0) mbarrier_arrive(&s.empty[last]);
    }
    wgmma_wait<0>(acc);
    if (tid % 128 == 0 && k_tiles > 0) mbarrier_arrive(&s.empty[last]);  // the next tile wants it

    // Epilogue.
    store_accumulators(p, aligned_c, bm * BM + wg * MMA_M, bn * BN, acc);
  });
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks());
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v21, grid, dim3(THREADS), {.smem = sizeof(Shared)}, stream, p, has_aligned_c(p),
               TileA::map(in.A.data, p.M, p.K, in.A.ld), TileB::map(in.B.data, p.N, p.K, in.B.ld));
}

const Registration rung(
    {.prev = "v20",
     .idea = "persistent CTAs: the next tile is loaded while this one is stored",
     .needs = {.sm = 90, .exact_arch = true}},
    {f16(launch)});

}  // namespace
