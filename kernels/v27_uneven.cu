// v27 uneven tiles: all rounds full, and nothing cut along K.
//
// before: v26 ends together, but its blocks read different slices of K at a time: fewer of their
//         requests meet in L2, and what the last round gains, the first two lose at 4096
// idea:   tiles of 128 or 120 rows of C: 33 strips of them make 4096 x 4096 exactly 8 x 132 tiles.
//         A wgmma has any multiple of 8 columns, so C^T is computed: the strip's rows of A are
//         those columns, and K-major, so that a TMA box may begin at any row
// watch:  blocks should stay near each other in K: tiles are dealt out so that each block gets high
//         and low ones in turn; C is stored in boxes of 8 rows, and transposed on the way
// needs:  sm_90a; A stored transposed: v24; copies of operands that TMA cannot address
//
//   role        threads   waits for              then                  and tells
//   producer    one       empty[stage]           loads a slice         full[stage], TMA's bytes
//   consumers   2 x 128   turn[wg], full[stage]  wgmma of whole tiles  empty[stage], a slice later;
//                                                                      turn[other], after a tile
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/strips.cuh"
#include "device/tma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BX = Strips::WIDTH, BY = Strips::HIGHEST, BK = 64;  // of a tile; depth of a slice
constexpr int MMA_X = 64, MMA_K = 16, STAGES = 6, GROUP = Strips::GROUP;
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major X_MAJOR>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27(GemmArgs<T> p, bool wide, Strips strips, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_y, const __grid_constant__ TensorMap map_c) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Major::K>;
  const int tid = threadIdx.x, wg = tid / 128, slices = cdiv(p.K, BK), columns = cdiv(p.N, BX);
  auto* sX = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sY = sX + STAGES * TileX::BYTES;
  uint8_t* sC = sY + STAGES * TileY::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + 2 * BY * 128);
  uint64_t *empty = full + STAGES, *turn = empty + STAGES;
  if (tid < 2) mbarrier_init(&turn[tid], 4);  // a thread of each warp
  if (tid == 0) init_ring<STAGES>(full, empty, 1);
  __syncthreads();
  grid_launch_dependents();
  grid_dependency_wait();

  Slot<STAGES> slot;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP>(blockIdx.x, gridDim.x, columns, strips.count, [&](int x, int y) {
      produce<TileX, TileY>(sX, sY, full, empty, slot, map_x, map_y, x * BX, strips.row(y, x), 0,
                            slices);
    });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  const bool leader = tid % 128 == 0;
  uint32_t turns = wg ^ 1;  // consumer 0 begins
  slot.skip(wg * slices);
  const int first = blockIdx.x + wg * gridDim.x;
  for_each_tile<GROUP>(first, 2 * gridDim.x, columns, strips.count, [&](int x, int y) {
    const int m = strips.row(y, x), rows = strips.row(y + 1, x) - m;
    float acc[BX / MMA_X][BY / 2];
    clear_registers(acc);  // now, and not when it is this one's turn
    int last = 0;
    if (slices > 0) mbarrier_wait(&turn[wg], turns++ & 1);
    // [region idea]
    const auto multiply = [&](auto height) {
      constexpr int HEIGHT = decltype(height)::value;
      for (int slice = 0; slice < slices; ++slice, last = slot.stage, slot.advance()) {
        const int s = slot.stage;
        mbarrier_wait(&full[s], slot.phase);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
          for (int i = 0; i < BX / MMA_X; ++i)
            wgmma<T, HEIGHT, X_MAJOR, Major::K>(
                reinterpret_cast<float(&)[HEIGHT / 2]>(acc[i]),
                TileX::descriptor(sX + s * TileX::BYTES, i * MMA_X) + k * TileX::K_STEP,
                TileY::descriptor(sY + s * TileY::BYTES) + k * TileY::K_STEP, true);
        wgmma_commit();
        if (slice == slices - 1 && tid % 32 == 0) mbarrier_arrive(&turn[wg ^ 1]);
        wgmma_wait<1>();
        if (leader && slice > 0) mbarrier_arrive(&empty[last]);
      }
    };
    if (rows > BY - 8)
      multiply(std::integral_constant<int, BY>());
    else
      multiply(std::integral_constant<int, BY - 8>());
    // [/region idea]
    wgmma_wait<0>();
    if (leader && slices > 0) mbarrier_arrive(&empty[last]);
    slot.skip(slices);  // the other consumer's tile

    // Epilogue.
#pragma unroll
    for (int i = 0; i < BX / MMA_X; ++i) {
      const int n = x * BX + i * MMA_X;
      hold_registers(acc[i]);
      if (p.alpha != 1 || p.beta != 0) blend_accumulators<true>(p, m, n, acc[i]);
      store_transposed(p, wide, map_c, m, n, rows, sC + wg * (BY * 128), acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  if (p.op_a == Op::T) return launch_rung("v24", p, stream);
  const Strips strips = choose_strips(p.M, cdiv(p.N, BX), persistent_blocks());
  const int64_t tiles = int64_t{cdiv(p.N, BX)} * strips.count;
  constexpr size_t SMEM = STAGES * ((BX + BY) * BK * 2 + 2 * 8) + 2 * BY * 128 + 2 * 8;
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto, auto b) {
    gemm::launch(gemm_v27<T, b()>, std::min<int64_t>(tiles, persistent_blocks()), dim3(THREADS),
                 {.smem = SMEM, .early = true}, stream, p, has_wide_rows(p), strips,
                 OperandTile<T, BX, b()>::map(in.B.data, p.N, p.K, in.B.ld),
                 OperandTile<T, BY, Major::K>::map(in.A.data, p.M, p.K, in.A.ld), c_map(p, 8));
  });
}

const Registration rung({.prev = "v24",
                         .idea = "uneven tiles: strips of 128 and 120 rows that fill all rounds",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(launch<half>), bfloat16(launch<bf16>)});

}  // namespace
