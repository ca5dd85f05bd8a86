// v23 TMA store: results leave through shared memory, in whole tiles.
//
// before: v22 stores pairs. A warp's request covers 8 rows of 16 bytes, half of each sector that it
//         touches. While every thread issues 64 such requests, the tensor cores wait.
// idea:   stmatrix writes the accumulators, as FP16, to swizzled tiles in shared memory. One thread
//         hands them to TMA, and the warpgroup goes on to the next tile.
// watch:  Two things are easily forgotten. Every thread that wrote executes fence.proxy.async
//         before TMA reads. And only the thread that issued a store can wait until TMA has read the
//         tile, which may then be overwritten.
// needs:  It needs sm_90a. Unaligned operands are copied first, an unaligned C is stored as in v22.
//
//   v22's roles and barriers; and of each consumer's 128 threads one, the leader, which waits until
//   its last store has read the warpgroup's half of C in shared memory, and issues the next one.
//
//   consumers   | wgmma of tile 0 | stage it | wgmma of tile 1 | wait, stage it | wgmma ...
//   TMA                                      | store tile 0 |                   | store tile 1 ...
#include "device/dynamic_shared.cuh"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/wgmma_epilogue.cuh"
#include "device/wgmma_main_loop.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 64, STAGES = 3;  // CTA tile, k-tiles in the pipeline
constexpr int MMA_M = 64;                               // rows of one wgmma, BN wide
constexpr int CLUSTER = 2, GROUP_M = 8;  // blocks, one above the other; rows of clusters a group
constexpr int CONSUMERS = BM / MMA_M;    // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;  // and the producer's: 168 registers per thread
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;
static_assert(PRODUCER_REGS + CONSUMERS * CONSUMER_REGS <= 3 * 168, "what a CTA gets at launch");

// [region idea]
// The accumulators as T in panels of 64 x 64, swizzled as TMA wants them: by a warpgroup.
template <class T, int COUNT>
GEMM_DEVICE void stage_accumulators(uint8_t* sC, const float (&acc)[COUNT]) {
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
#pragma unroll
  for (int i = 0; i < COUNT; i += 8) {  // 16 columns: four 8 x 8 matrices
    uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = pack_pair<T>(acc[i + 2 * w], acc[i + 2 * w + 1]);
    const int chunk = i / 4 % 8 + half;
    stmatrix(sC + i / 32 * 8192 + swizzle(Swizzle::b128, row * 128 + chunk * 16), words);
  }
}
// [/region idea]

using TileA = OperandTile<half, BM, Major::K>;
using TileB = OperandTile<half, BN, Major::MN>;

struct Shared {                          // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];       // (STAGES, BM, BK)
  uint8_t B[STAGES][TileB::BYTES];       // (STAGES, BN / 64, BK, 64)
  uint8_t C[CONSUMERS][MMA_M * BN * 2];  // (CONSUMERS, BN / 64, MMA_M, 64), swizzled
  uint64_t full[STAGES], empty[STAGES];
};

__global__ void __launch_bounds__(THREADS, 1)
    gemm_v23(GemmArgs<half> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  // Where am I?
  const int tid = threadIdx.x, wg = tid / 128, k_tiles = cdiv(p.K, BK);
  // Tiles are the cluster's: two CTAs high; the lower CTA may lie below the matrix.
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
    const bool leader = tid % 128 == 0;
    uint8_t* const staging = s.C[wg];
    for_each_tile<GROUP_M>(first, step, tiles_m, tiles_n, [&](int pair, int bn) {
      const int m = (pair * CLUSTER + rank) * BM + wg * MMA_M, n = bn * BN;
      float acc[BN / 2] = {};
      const auto multiply = [&](int stage, int) {
        multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage], wg * MMA_M);
      };
      const int last = multiply_k_tiles<CLUSTER>(s.full, s.empty, state, k_tiles, multiply);
      finish_k_tiles<CLUSTER>(s.empty, k_tiles, last);
      fence_operand(acc);

      // Epilogue.
      // [region epilogue]
      if (!aligned_c) return store_accumulators(p, aligned_c, m, n, acc);
      apply_epilogue(p, aligned_c, m, n, acc);
      if (leader) tma_store_wait_read<0>();
      named_barrier_sync(1 + wg, 128);  // TMA has read the tile before this one
      stage_accumulators<half>(staging, acc);
      fence_proxy_async();
      named_barrier_sync(1 + wg, 128);  // all have written
      if (leader) {
        for (int c = 0; c < BN / 64; ++c)
          if (m < p.M && n + c * 64 < p.N) tma_store(map_c, m, n + c * 64, staging + c * 8192);
        tma_store_commit();
      }
      // [/region epilogue]
    });
    if (leader) tma_store_wait_read<0>();
  }
  cluster_arrive();
  cluster_wait();  // the neighbour's last copies and arrivals have come
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, CLUSTER * BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks() / CLUSTER) * CLUSTER;
  const TmaOperands<half> in(p, stream);
  gemm::launch(gemm_v23, grid, dim3(THREADS), {.smem = sizeof(Shared), .cluster = CLUSTER}, stream,
               p, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               TileB::map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld), c_map(p));
}

const Registration rung({.prev = "v22",
                         .idea = "stmatrix and TMA store: results leave in tiles",
                         .needs = {.sm = 90, .exact_arch = true}},
                        {f16(launch)});

}  // namespace
