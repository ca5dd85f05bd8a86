// v26 late epilogue: a tile's results wait in registers while the next tile begins.
//
// before: v24's turns leave no seam, but a tile that one warpgroup holds is at most 128 x 192, and
//         moves more bytes for a multiplication than the 128 x 256 that v23's two hold together
// idea:   v23's tile without its seam: packed as T the results take 64 registers, beside the
//         accumulators; the next tile's first slices go to the tensor cores, and while they are
//         multiplied the results are staged and stored, some panels a slice
// watch:  the registers: 128 + 64 of 240; which panels is known when the code is compiled, for
//         registers have no addresses
// needs:  sm_90a; copies of operands that TMA cannot address; stores by rows where C is unaligned
//
//   consumer 0   | tile 0 ...... | pack | tile 1: slice 0, store | slice 1, store | slices 2 ......
//   consumer 1   | tile 0 ...... | pack | tile 1: slice 0, store | slice 1, store | slices 2 ......
//   tensor cores |##################  ######################################################### ...
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/tma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BK = 64;       // of a block's tile; BN and STAGES: see VARIANTS
constexpr int MMA_M = 64, MMA_K = 16;  // one wgmma, BN wide
constexpr int GROUP_M = 16;            // rows of tiles that are worked on together
constexpr int CONSUMERS = BM / MMA_M;  // warpgroups, each with 64 rows
constexpr int THREADS = (CONSUMERS + 1) * 128;
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major A_MAJOR, Major B_MAJOR, int BN, int STAGES, int SLOTS>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v26(GemmArgs<T> p, bool wide, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  constexpr int PANELS = BN / 64;  // of 64 columns, of a tile's results
  // Where am I?
  const int tid = threadIdx.x, wg = tid / 128, slices = cdiv(p.K, BK);
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);

  // The ring, and SLOTS panels of results for each consumer.
  auto* sA = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sB = sA + STAGES * TileA::BYTES;
  uint8_t* sC = sB + STAGES * TileB::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + CONSUMERS * SLOTS * 8192);
  uint64_t* empty = full + STAGES;
  if (tid == 0) init_ring<STAGES>(full, empty, CONSUMERS);
  __syncthreads();
  grid_launch_dependents();
  grid_dependency_wait();

  Slot<STAGES> slot;
  if (wg == CONSUMERS) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
      produce<TileA, TileB>(sA, sB, full, empty, slot, map_a, map_b, bm * BM, bn * BN, 0, slices);
    });
    return;
  }

  // A consumer.
  setmaxnreg_inc<CONSUMER_REGS>();
  const bool leader = tid % 128 == 0;
  uint8_t* staging = sC + wg * (SLOTS * 8192);
  float acc[BN / 2];
  // [region idea]
  uint32_t results[BN / 4];                  // of the tile before, in pairs
  int m = -1, n = 0;                         // where they belong; at first there are none
  const auto store_panel = [&](int panel) {  // each warp its own 16 rows
    uint8_t* to = staging + panel % SLOTS * 8192;
    if (tid % 32 == 0) tma_store_wait_read<SLOTS - 1>();
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int i = 0; i < PANELS; ++i)
      if (i == panel) stage_pairs<16>(to, &results[i * 16]);
    fence_proxy_async();
    __syncwarp();  // all lanes have written
    if (!wide) store_staged_rows<64>(p, m, n + panel * 64, to);
    if (wide && tid % 32 == 0) store_staged_panels<64>(p, map_c, m, n + panel * 64, to);
  };
  for_each_tile<GROUP_M>(blockIdx.x, gridDim.x, tiles_m, tiles_n, [&](int bm, int bn) {
    int last = 0;
    for (int slice = 0; slice < slices; ++slice, last = slot.stage, slot.advance()) {
      const int s = slot.stage;
      mbarrier_wait(&full[s], slot.phase);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK / MMA_K; ++k)
        wgmma<T, BN, A_MAJOR, B_MAJOR>(
            acc, TileA::descriptor(sA + s * TileA::BYTES, wg * MMA_M) + k * TileA::K_STEP,
            TileB::descriptor(sB + s * TileB::BYTES) + k * TileB::K_STEP, slice > 0 || k > 0);
      wgmma_commit();
      if (m >= 0 && slice < PANELS) store_panel(slice);
      wgmma_wait<1>();
      if (leader && slice > 0) mbarrier_arrive(&empty[last]);
    }
    wgmma_wait<0>(acc);
    if (leader && slices > 0) mbarrier_arrive(&empty[last]);
    for (int i = slices; m >= 0 && i < PANELS; ++i) store_panel(i);  // K was short

    m = bm * BM + wg * MMA_M, n = bn * BN;
    if (slices == 0)
      for (float& sum : acc) sum = 0;
    if (p.alpha != 1 || p.beta != 0) blend_accumulators(p, m, n, acc);
    pack_accumulators<T>(results, acc);
  });
  for (int i = 0; i < PANELS; ++i) store_panel(i);
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int BN, int STAGES, int SLOTS>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks());
  constexpr size_t SMEM = STAGES * ((BM + BN) * BK * 2 + 2 * 8) + CONSUMERS * SLOTS * 8192;
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v26<T, a(), b(), BN, STAGES, SLOTS>, grid, dim3(THREADS),
                 {.smem = SMEM, .early = true}, stream, p, has_wide_rows(p),
                 OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x256 s4", launch<T, 256, 4, 2>},
                               {"128x192 s4", launch<T, 192, 4, 3>}};

constexpr TileShape SHAPES[] = {{128, 256, 1.0}, {128, 192, 1.0}};
template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  return choose_tile(p.M, p.N, SHAPES, sms);
}

const Registration rung(
    {.prev = "v23",
     .idea = "late epilogue: results wait in registers while the next tile begins",
     .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
    {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
