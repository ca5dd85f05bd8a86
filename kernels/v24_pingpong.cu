// v24 pingpong: two warpgroups take turns at the tensor cores, each with its own tile.
//
// before: both of v23's consumers end a tile at the same time; from the last wgmma of one tile to
//         the first of the next the tensor cores wait, about 4000 cycles
// idea:   consumer 1 computes a tile while consumer 0 stores the one before, and so on. Tiles may
//         then be smaller, and are chosen to fill the last wave; and the next kernel's blocks
//         start when this one's end. Where a row pitch is not a multiple of
//         128 bytes, clusters share B's k-tiles
// watch:  a parity tells only neighbouring phases apart: a consumer may wait for its k-tiles only
//         when the other has seen the last of its own
// needs:  sm_90a; copies of operands that TMA cannot address; stores by rows where C is unaligned
//
//   role        threads   waits for              then                  and tells
//   producer    one       empty[stage]           loads a k-tile        full[stage], TMA's bytes
//   consumers   2 x 128   order[wg], full[stage]  wgmma of whole tiles  empty[stage], a k-tile later;
//                                                                      order[other], after a tile
//   consumer 0  | tile 0 .......... | store | wait | tile 2 .......... | store |
//   consumer 1  | wait              | tile 1 .......... | store | wait | tile 3 ..........
#include "device/dynamic_shared.cuh"
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
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64, MMA_K = 16,
              GROUP_M = 16;  // k-tile; wgmma; rows of tiles a group
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major A_MAJOR, Major B_MAJOR, int BM, int BN, int STAGES, int EPILOGUE_STAGES,
          int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v24(GemmArgs<T> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();  // first, for its blocks take a while to come: 1 to 2 % at 512
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  const int begin = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER, step = gridDim.x / CLUSTER;
  auto* sA =
      static_cast<uint8_t*>(dynamic_shared());  // the pipeline; EPILOGUE_STAGES panels a consumer
  uint8_t *sB = sA + STAGES * TileA::BYTES, *sC = sB + STAGES * TileB::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + 2 * EPILOGUE_STAGES * 8192);
  uint64_t *empty = full + STAGES, *order = empty + STAGES;
  if (tid == 0) {
    init_ordered_barrier(order);
    init_pipeline<STAGES>(full, empty, CLUSTER);
  }
  sync_cluster<CLUSTER>();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP_M, CLUSTER>(begin, step, rank, tiles_m, tiles_n, [&](int bm, int bn) {
      grid_dependency_wait(bm, bn);  // by now the first tile's place is known
      produce_shared<TileA, TileB, CLUSTER>(sA, sB, full, empty, state, map_a, map_b, bm * BM,
                                            bn * BN, k_tiles, rank);
    });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint8_t* staging = sC + wg * (EPILOGUE_STAGES * 8192);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  // [region idea]
  const auto compute = [&](int bm, int bn, int64_t left) {
    fence_operand(bm, bn);  // or they are divided out behind the loop: 3 % at 1024
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // now, and not when it is this one's turn
    int last = 0;
    if (k_tiles > 0) mbarrier_wait(&order[wg], parity);
    parity ^= 1;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
      const int s = state.stage;
      mbarrier_wait(&full[s], state.phase);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
        for (int i = 0; i < BM / MMA_M; ++i)
          wgmma<T, BN, A_MAJOR, B_MAJOR>(
              acc[i], TileA::descriptor(sA + s * TileA::BYTES, i * MMA_M) + k * TileA::K_STEP,
              TileB::descriptor(sB + s * TileB::BYTES) + k * TileB::K_STEP, true);
      wgmma_commit();
      if (k_tile == k_tiles - 1 && tid % 32 == 0)
        mbarrier_arrive(&order[wg ^ 1]);  // it queues up now
      wgmma_wait<1>();
      if (k_tile > 0) arrive_at_all<CLUSTER>(&empty[last]);
    }
    wgmma_wait<0>();
    if (k_tiles > 0) arrive_at_all<CLUSTER>(&empty[last]);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = bm * BM + i * MMA_M, n = bn * BN;
      fence_operand(acc[i]);
      if (p.alpha != 1 || p.beta != 0) axpby_accumulators(p, m, n, acc[i]);
      if (aligned_c &&
          left * CLUSTER <= gridDim.x)  // the last: nobody hides it; `step` would spill
        store_accumulators_aligned(p, m, n, acc[i]);
      else
#pragma unroll
        for (int c = 0; c < BN / 64; ++c)
          store_panel<EPILOGUE_STAGES - 1>(p, aligned_c, map_c, m, n + c * 64,
                                           staging + (i * BN / 64 + c) % EPILOGUE_STAGES * 8192,
                                           &acc[i][c * 32]);
    }
  };
  for_each_tile<GROUP_M, CLUSTER>(begin + wg * step, 2 * step, rank, tiles_m, tiles_n, compute);
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
  if (CLUSTER > 1) sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t cluster_tiles = int64_t{cdiv(p.M, BM * CLUSTER)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(cluster_tiles, persistent_blocks() / CLUSTER) * CLUSTER;
  constexpr size_t SMEM =
      STAGES * ((BM + BN) * BK * 2 + 2 * 8) + 2 * EPILOGUE_STAGES * 8192 + 2 * 8;
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v24<T, a(), b(), BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER>, grid,
                 dim3(THREADS), {.smem = SMEM, .cluster = CLUSTER, .pdl = true}, stream, p,
                 has_aligned_c(p), OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::template map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld),
                 c_map(p, 16));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x192 s5", launch<T, 128, 192, 5, 1, 1>},
                               {"128x128 s6", launch<T, 128, 128, 6, 2, 1>},
                               {"64x128 s8", launch<T, 64, 128, 8, 2, 1>},
                               {"128x192 s5 c2", launch<T, 128, 192, 5, 1, 2>},
                               {"128x128 s6 c2", launch<T, 128, 128, 6, 2, 2>},
                               {"64x128 s8 c2", launch<T, 64, 128, 8, 2, 2>}};

template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  return choose_data_parallel_tile(p, sms).choice;
}

const Registration rung({.prev = "v23",
                         .idea = "pingpong: two warpgroups take turns; tiles that fill the waves",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
