// v27 uneven tiles: all waves full, and nothing cut along K.
//
// before: v26's CTAs end together, but read different k-tiles at a time: they lose reuse in L2, and
//         at 4096 the first two waves lose what the last one gains
// idea:   tiles of neighbouring heights: 24 or 25 row panels of 160 to 176 rows make 4096 x 4096
//         exactly 6 x 132 tiles. A wgmma has any multiple of 8 columns, so C^T is computed: a row
//         panel of A gives those columns, K-major, so that a TMA box may begin at any row
// watch:  CTAs should be at the same k-tile at the same time, so all high tiles come before all low
//         ones. The epilogue transposes C, slowly, except for a CTA's last tile
// needs:  sm_90a; A transposed or C's rows not in whole 16 bytes: v24; copies as for v24
//
//   role        threads   waits for              then                  and tells
//   producer    one       empty[stage]           loads a slice         full[stage], TMA's bytes
//   consumers   2 x 128   turn[wg], full[stage]  wgmma of whole tiles  empty[stage], a slice later;
//                                                                      turn[other], near its end
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/strips.cuh"
#include "device/tma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BX = STRIPS.width, BK = 64, MMA_X = 64, MMA_K = 16;  // a tile, a slice, a wgmma
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major X_MAJOR, int BY, int STAGES, int SLOTS>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27(GemmArgs<T> p, Strips strips, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_high, const __grid_constant__ TensorMap map_low,
             const __grid_constant__ TensorMap map_c) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Major::K>;
  const int tid = threadIdx.x, wg = warpgroup(), slices = cdiv(p.K, BK);
  auto* sX = static_cast<uint8_t*>(dynamic_shared());
  uint8_t *sY = sX + STAGES * TileX::BYTES, *sC = sY + STAGES * TileY::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + 2 * SLOTS * 8192);
  uint64_t *empty = full + STAGES, *turn = empty + STAGES;
  if (tid == 0) {
    init_turns(turn);
    init_ring<STAGES>(full, empty, 1);
  }
  __syncthreads();
  grid_launch_dependents();

  Slot<STAGES> slot;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    int nth = 0;  // every other tile from the end of K on, whose slices are still in L2
    strips.for_each(blockIdx.x, gridDim.x, [&](int x, int m, int rows, int64_t) {
      const TensorMap& map_y = rows > strips.low_box() ? map_high : map_low;
      grid_dependency_wait(x, m);  // by now the first tile's place is known
      produce<TileX, TileY>(sX, sY, full, empty, slot, map_x, map_y, x * BX, m, 0, slices,
                            TileX::BYTES + strips.box(rows) * BK * 2, nth++ % 2 == 1);
    });
    return;
  }

  // A consumer: every other tile of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint8_t* const staging = sC + wg * SLOTS * 8192;
  uint32_t turns = wg ^ 1;  // consumer 0 begins
  slot.skip(wg * slices);
  const int first = blockIdx.x + wg * gridDim.x;
  const int handover = slices > 1 ? slices - 2 : 0;  // finding its height takes the other a while
  strips.for_each(first, 2 * gridDim.x, [&](int x, int m, int rows, int64_t left) {
    float acc[BX / MMA_X][BY / 2];
    clear_registers(acc);  // now, and not when it is this one's turn
    int last = 0;
    if (slices > 0) mbarrier_wait(&turn[wg], turns++ & 1);
    // [region idea]
    with_height<STRIPS.lowest, BY>(rows, [&](auto height) {
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
        if (slice == handover && tid % 32 == 0) mbarrier_arrive(&turn[wg ^ 1]);
        wgmma_wait<1>();
        if (tid % 128 == 0 && slice > 0) mbarrier_arrive(&empty[last]);
      }
    });
    // [/region idea]
    wgmma_wait<0>();
    if (tid % 128 == 0 && slices > 0) mbarrier_arrive(&empty[last]);
    slot.skip(slices);  // the other consumer's tile

    // Epilogue.
    GemmArgs<T> strip = p;
    strip.M = p.M < m + rows ? p.M : m + rows;  // where it ends
#pragma unroll
    for (int i = 0; i < BX / MMA_X; ++i) {
      const int n = x * BX + i * MMA_X;
      hold_registers(acc[i]);
      if (p.alpha != 1 || p.beta != 0) blend_transposed(strip, m, n, acc[i]);
      if (left <= gridDim.x)
        store_transposed(strip, m, n, acc[i]);
      else
        store_panels_transposed<SLOTS>(strip, map_c, m, n, staging, i, acc[i]);
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int BY, int STAGES, int SLOTS>
void launch(const GemmArgs<T>& p, Stream stream) {
  if (!allows_strips(p)) return launch_rung("v24", p, stream);
  const int blocks = persistent_blocks();
  const StripChoice cut = choose_strips(p.M, p.N, {BX, STRIPS.lowest, BY, STRIPS.group}, blocks);
  const int64_t grid = std::min<int64_t>(cut.stacks(), blocks);
  constexpr size_t SMEM = STAGES * ((BX + BY) * BK * 2 + 2 * 8) + 2 * SLOTS * 8192 + 2 * 8;
  const TmaOperands<T> in(p, stream);
  const auto map_y = [&](int rows) {
    return tensor_map(in.A.data, p.M, p.K, in.A.ld, rows, BK, OperandTile<T, BY, Major::K>::MODE);
  };
  with_majors(p, [&](auto, auto b) {
    gemm::launch(gemm_v27<T, b(), BY, STAGES, SLOTS>, grid, dim3(THREADS),
                 {.smem = SMEM, .early = true}, stream, p, cut.strips,
                 OperandTile<T, BX, b()>::map(in.B.data, p.N, p.K, in.B.ld),
                 map_y(cut.strips.low_box() + 8), map_y(cut.strips.low_box()), c_map(p, 8));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x128 s6", launch<T, 128, 6, 2>},
                               {"160x128 s5", launch<T, 160, 5, 2>},
                               {"192x128 s5", launch<T, STRIPS.highest, 5, 1>}};

template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  const StripChoice cut = choose_strips(p.M, p.N, STRIPS, sms);
  return {cut.highest() > 160 ? 2 : cut.highest() > 128,
          allows_strips(p) ? cut.why(sms) : "v24's tiles"};
}

const Registration rung({.prev = "v24",
                         .idea = "uneven tiles: neighbouring heights that fill all waves",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
