// v24 pingpong: two warpgroups take turns at the tensor cores, each with its own tile.
//
// before: both of v23's consumers end a tile at the same time; from the last wgmma of one tile to
//         the first of the next the tensor cores wait, about 4000 cycles
// idea:   consumer 1 computes a tile while consumer 0 stores the one before, and so on; tiles may
//         then be smaller, and are chosen to fill the last round; and so do kernels follow each
//         other: the next one's blocks start when this one's end
// watch:  the order: a parity tells only neighbouring phases apart, so a consumer may wait for its
//         slices only when the other has seen the last of its own
// needs:  sm_90a; copies of operands that TMA cannot address; stores by rows where C is unaligned
//
//   role        threads   waits for              then                  and tells
//   producer    one       empty[stage]           loads a slice         full[stage], TMA's bytes
//   consumers   2 x 128   turn[wg], full[stage]  wgmma of whole tiles  empty[stage], a slice later;
//                                                                      turn[other], after a tile
//   consumer 0  | tile 0 .......... | store | wait | tile 2 .......... | store |
//   consumer 1  | wait              | tile 1 .......... | store | wait | tile 3 ..........
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/tma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64, MMA_K = 16;  // depth of a slice; one wgmma, BN wide
constexpr int GROUP_M = 16;                     // rows of tiles that are worked on together
constexpr int THREADS = 3 * 128;                // two consumers and the producer's warpgroup
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major A_MAJOR, Major B_MAJOR, int BM, int BN, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v24(GemmArgs<T> p, bool wide, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  // Where am I?
  const int tid = threadIdx.x, wg = tid / 128, slices = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);

  // The ring; 64 rows of results for each consumer; whose turn it is.
  auto* sA = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sB = sA + STAGES * TileA::BYTES;
  uint8_t* sC = sB + STAGES * TileB::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + 2 * MMA_M * BN * 2);
  uint64_t *empty = full + STAGES, *turn = empty + STAGES;
  if (tid == 0) {
    for (int i = 0; i < 2; ++i) mbarrier_init(&turn[i], 4);  // a thread of each warp
    init_ring<STAGES>(full, empty, 1);
  }
  __syncthreads();
  grid_launch_dependents();
  grid_dependency_wait();

  Slot<STAGES> slot;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
      produce<TileA, TileB>(sA, sB, full, empty, slot, map_a, map_b, bm * BM, bn * BN, 0, slices);
    });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  const bool leader = tid % 128 == 0;
  uint8_t* staging = sC + wg * (MMA_M * BN * 2);
  uint32_t parity = wg ^ 1;  // of turn[wg]; consumer 0 begins
  slot.skip(wg * slices);
  // [region idea]
  const int first = blockIdx.x + wg * gridDim.x;
  for_each_tile<GROUP_M>(first, 2 * gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
    float acc[BM / MMA_M][BN / 2] = {};
    int last = 0;
    mbarrier_wait(&turn[wg], parity);
    parity ^= 1;
    for (int slice = 0; slice < slices; ++slice, last = slot.stage, slot.advance()) {
      const int s = slot.stage;
      mbarrier_wait(&full[s], slot.phase);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
        for (int i = 0; i < BM / MMA_M; ++i)
          wgmma<T, BN, A_MAJOR, B_MAJOR>(
              acc[i], TileA::descriptor(sA + s * TileA::BYTES, i * MMA_M) + k * TileA::K_STEP,
              TileB::descriptor(sB + s * TileB::BYTES) + k * TileB::K_STEP, true);
      wgmma_commit();
      wgmma_wait<1>();
      if (leader && slice > 0) mbarrier_arrive(&empty[last]);
    }
    if (tid % 32 == 0) mbarrier_arrive(&turn[wg ^ 1]);  // whose wgmma queue up behind these
    wgmma_wait<0>();
    if (leader && slices > 0) mbarrier_arrive(&empty[last]);
    slot.skip(slices);  // the other consumer's tile
                        // [/region idea]

    // Epilogue, 64 rows at a time, each warp its own 16.
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = bm * BM + i * MMA_M, n = bn * BN;
      hold_registers(acc[i]);
      if (p.alpha != 1 || p.beta != 0) blend_accumulators(p, m, n, acc[i]);
      if (tid % 32 == 0) tma_store_wait_read<0>();
      __syncwarp();  // the warp's rows before these have been read
      stage_accumulators<T>(staging, acc[i]);
      fence_proxy_async();
      __syncwarp();  // all lanes have written
      if (!wide) store_staged_rows<BN>(p, m, n, staging);
      if (wide && tid % 32 == 0) store_staged_panels<BN>(p, map_c, m, n, staging);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int BM, int BN, int STAGES>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks());
  constexpr size_t SMEM = STAGES * ((BM + BN) * BK * 2 + 2 * 8) + 2 * MMA_M * BN * 2 + 2 * 8;
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v24<T, a(), b(), BM, BN, STAGES>, grid, dim3(THREADS),
                 {.smem = SMEM, .early = true}, stream, p, has_wide_rows(p),
                 OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x192 s4", launch<T, 128, 192, 4>},
                               {"128x128 s6", launch<T, 128, 128, 6>},
                               {"64x128 s8", launch<T, 64, 128, 8>}};

constexpr TileShape SHAPES[] = {{128, 192, 1.0}, {128, 128, 1.02}, {64, 128, 1.15}};
template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  return choose_tile(p.M, p.N, SHAPES, sms);
}

const Registration rung({.prev = "v23",
                         .idea = "pingpong: two warpgroups take turns; tiles that fill the rounds",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
