// v22 multicast: two CTAs of a cluster load each tile of B once, for both.
//
// before: Every SM of v21 reads 384 rows and columns of operands from L2 per 64 k. At 559 TFLOPS
//         that is 6.6 TB/s in all, two thirds of what TMA gets from L2, and it takes energy.
// idea:   Two CTAs of a cluster, one above the other, need the same columns of B. Each loads half
//         of the tile, and TMA delivers it to both: 256 rows and columns per CTA instead of 384.
// watch:  The neighbour may now overwrite a buffer. So empty[] counts the consumers of both CTAs,
//         who tell both, and no CTA may end while the other still writes to it.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
//
//   role        threads   waits for       then                            and tells
//   producer    one       empty[stage]    loads 128 x 64 of A; its half   full[stage], TMA's bytes:
//                                         of 64 x 256 of B, to both       that of both CTAs
//   consumers   2 x 128   full[stage]     4 wgmma m64n256k16              empty[stage] of both
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   4 arrivals, one of each consumer of both CTAs
//
//   CTA 0, producer      | A 0, left half of B 0 to both  | A 1, left half of B 1 ...
//   CTA 1, producer      | A 0, right half of B 0 to both | A 1, right half of B 1 ...
//   all consumers                                         | wgmma 0 | wgmma 1 ...
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64;                               // rows of one wgmma, BN wide
constexpr int CLUSTER = 2, GROUP_M = 8;  // blocks, one above the other; rows of clusters a group
constexpr int CONSUMERS = BM / MMA_M;    // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;  // and the producer's: 168 registers per thread
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(PRODUCER_REGS + CONSUMERS * CONSUMER_REGS <= 3 * 168, "what a CTA gets at launch");

// [region idea]
// Loads part `part` of PARTS of the tile at (mn, k) into all CTAs of the cluster, by one thread.
// The other CTAs load the other parts. The bytes arrive at each CTA's own `full`.
template <class Tile, int PARTS>
GEMM_DEVICE void load_part(uint8_t* tile, const TensorMap& map, int mn, int k, uint64_t* full,
                           int part GEMM_CALLER_ARG) {
  constexpr uint16_t ALL = (1 << PARTS) - 1;
  static_assert(Tile::PANELS % PARTS == 0, "a part is whole panels");
#pragma unroll
  for (int i = 0; i < Tile::PANELS / PARTS; ++i) {
    const int panel = part * (Tile::PANELS / PARTS) + i;
    tma_load_multicast(tile + panel * Tile::PANEL_BYTES, map, k, mn + panel * Tile::WIDTH, full,
                       ALL GEMM_CALLER_PASS);
  }
}

// Arrives at `barrier` in every CTA of the cluster: one lane of the warpgroup for each.
template <int CLUSTER>
GEMM_DEVICE void arrive_at_all(uint64_t* barrier GEMM_CALLER_ARG) {
  const int rank = threadIdx.x % 128;
  if (rank < CLUSTER) mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS);
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
    gemm_v22(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b) {
  // Where am I?
  const int tid = threadIdx.x, wg = tid / 128, k_tiles = cdiv(p.K, BK);
  // Tiles are the cluster's, two CTAs high. The lower CTA may lie below the matrix: it loads
  // zeros and stores nothing.
  const int tiles_m = cdiv(p.M, CLUSTER * BM), tiles_n = cdiv(p.N, BN);
  const int first = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER, rank = cluster_rank();

  // The pipeline.
  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CLUSTER * CONSUMERS);
  cluster_arrive();
  cluster_wait();  // the neighbour's barriers are there, too

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 == 0 && elect_one())
      for_each_tile<GROUP_M>(first, step, tiles_m, tiles_n, [&](int pair, int bn) {
        const int bm = pair * CLUSTER + rank;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
          const int stage = state.stage;
          mbarrier_wait(&s.empty[stage], state.phase ^ 1);
          mbarrier_arrive_expect_tx(&s.full[stage], TileA::BYTES + TileB::BYTES);
          TileA::load(s.A[stage], map_a, bm * BM, k_tile * BK, &s.full[stage]);
          load_part<TileB, CLUSTER>(s.B[stage], map_b, bn * BN, k_tile * BK, &s.full[stage], rank);
        }
      });
  } else {
    // A consumer.
    setmaxnreg_inc<CONSUMER_REGS>();
    for_each_tile<GROUP_M>(first, step, tiles_m, tiles_n, [&](int pair, int bn) {
      const int bm = pair * CLUSTER + rank;
      float acc[BN / 2] = {};
      int last = 0;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
        const int stage = state.stage;
        mbarrier_wait(&s.full[stage], state.phase);
        multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage], wg * MMA_M);
        wgmma_wait<1>();
        if (k_tile > 0) arrive_at_all<CLUSTER>(&s.empty[last]);
      }
      wgmma_wait<0>(acc);
      if (k_tiles > 0) arrive_at_all<CLUSTER>(&s.empty[last]);  // the next tile wants it

      // Epilogue.
      store_accumulators(p, aligned_c, bm * BM + wg * MMA_M, bn * BN, acc);
    });
  }
  cluster_arrive();
  cluster_wait();  // the neighbour's last copies and arrivals have come
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, CLUSTER * BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks() / CLUSTER) * CLUSTER;
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v22, grid, dim3(THREADS), {.smem = sizeof(Shared), .cluster = CLUSTER}, stream,
               p, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               TileB::map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld));
}

const Registration rung({.prev = "v21",
                         .idea = "clusters: a tile of B is loaded once for two CTAs",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
