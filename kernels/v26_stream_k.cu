// v26 stream-K: no CTA idles in the last wave.
//
// before: v24's tiles take whole rounds: 4096 x 4096 are 7.76 of 128 x 128, and cost 8; 2560 x 2560
//         are 3.03, and cost 4
// idea:   what fills no round is cut along K into equal runs, one a block. A block hands the sums
//         of the tile that its run ends in to the next block, which ends that tile
// watch:  nobody should wait: the piece that is handed over comes first. And blocks should read the
//         same k-tiles at the same time, else they lose reuse in L2: the piece that
//         ends a tile comes right behind, so that all blocks are done with both at once
// needs:  sm_90a; copies of operands that TMA cannot address; stores by rows where C is unaligned
//
//   role        threads   waits for              then                   and tells
//   producer    one       empty[stage]           loads a slice          full[stage], TMA's bytes
//   consumers   2 x 128   turn[wg], full[stage]  wgmma of a whole piece empty[stage], a slice on;
//                                                                       turn[other], after a piece
//     a warp              the block before's     adds its sums          the block after's: a flag
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tma_epilogue.cuh"
#include "rung.h"
#include "v26_stream_k/runs.cuh"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64, MMA_K = 16;  // depth of a slice; one wgmma, BN wide
constexpr int GROUP_M = 16, THREADS = 3 * 128;  // rows of tiles a group; threads of all roles
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class T, Major A_MAJOR, Major B_MAJOR, int BM, int BN, int STAGES, int SLOTS>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v26(GemmArgs<T> p, bool wide, Handover handover, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  const int tid = threadIdx.x, wg = warpgroup();
  // The ring; SLOTS panels of results for each consumer; whose turn it is.
  auto* sA = static_cast<uint8_t*>(dynamic_shared());
  uint8_t* sB = sA + STAGES * TileA::BYTES;
  uint8_t* sC = sB + STAGES * TileB::BYTES;
  auto* full = reinterpret_cast<uint64_t*>(sC + 2 * SLOTS * 8192);
  uint64_t *empty = full + STAGES, *turn = empty + STAGES;
  auto* pieces = reinterpret_cast<Pieces*>(turn + 2);
  if (tid == 0) {
    init_turns(turn);
    init_ring<STAGES>(full, empty, 1);
    *pieces = Pieces(blockIdx.x, gridDim.x, cdiv(p.M, BM), cdiv(p.N, BN), GROUP_M, cdiv(p.K, BK));
  }
  __syncthreads();
  grid_launch_dependents();

  Slot<STAGES> slot;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for (int i = 0; i < pieces->count(); ++i) {
      const Piece piece = (*pieces)[i];
      const TileIndex at = pieces->place(piece);
      grid_dependency_wait(at.m, at.n);  // by now the first tile's place is known
      produce<TileA, TileB>(sA, sB, full, empty, slot, map_a, map_b, at.m * BM, at.n * BN,
                            piece.begin, piece.end);
    }
    return;
  }

  // A consumer: every other piece of the block.
  setmaxnreg_inc<CONSUMER_REGS>();
  grid_dependency_wait();
  uint8_t* staging = sC + wg * (SLOTS * 8192);
  // [region idea]
  for (int nth = 0; nth < pieces->count(); ++nth) {
    const Piece piece = (*pieces)[nth];
    const int slices = piece.end - piece.begin;
    if (nth % 2 != wg) {  // the other consumer's
      slot.skip(slices);
      continue;
    }
    float acc[BM / MMA_M][BN / 2];
    clear_registers(acc);  // now, and not when it is this one's turn
    int last = 0;
    if (slices > 0) mbarrier_wait(&turn[wg], (nth / 2 + wg + 1) % 2);  // consumer 0 begins
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
      if (slice == slices - 1 && tid % 32 == 0) mbarrier_arrive(&turn[wg ^ 1]);
      wgmma_wait<1>();
      if (tid % 128 == 0 && slice > 0) mbarrier_arrive(&empty[last]);
    }
    const TileIndex at = pieces->place(piece);  // while the last wgmma run
    wgmma_wait<0>();
    if (tid % 128 == 0 && slices > 0) mbarrier_arrive(&empty[last]);
    hold_registers(acc);
    // Epilogue.
    if (!pieces->has_last(piece)) {
      handover.give(acc);
      continue;
    }
    if (piece.begin > 0) handover.take(acc);
#pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
      const int m = at.m * BM + i * MMA_M, n = at.n * BN;
      if (p.alpha != 1 || p.beta != 0) blend_accumulators(p, m, n, acc[i]);
#pragma unroll
      for (int c = 0; c < BN / 64; ++c)
        store_panel<SLOTS - 1>(p, wide, map_c, m, n + c * 64,
                               staging + (i * BN / 64 + c) % SLOTS * 8192, &acc[i][c * 32]);
    }
  }
  // [/region idea]
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int BM, int BN, int STAGES, int SLOTS>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const int64_t grid = std::min<int64_t>(tiles, persistent_blocks());
  constexpr size_t SMEM =
      STAGES * ((BM + BN) * BK * 2 + 2 * 8) + 2 * SLOTS * 8192 + 2 * 8 + sizeof(Pieces);
  const TmaOperands<T> in(p, stream);
  const HandoverMemory handover(tiles, grid, BM, BN, stream);
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v26<T, a(), b(), BM, BN, STAGES, SLOTS>, grid, dim3(THREADS),
                 {.smem = SMEM, .early = true}, stream, p, has_wide_rows(p), handover.get(),
                 OperandTile<T, BM, a()>::map(in.A.data, p.M, p.K, in.A.ld),
                 OperandTile<T, BN, b()>::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"128x192 s4", launch<T, 128, 192, 4, 2>},
                               {"128x128 s6", launch<T, 128, 128, 6, 2>}};

template <class T>
Choice choose(const GemmArgs<T>& p, int sms) {
  return choose_tile(p.M, p.N, p.K, SHARED_TILES, sms).choice;
}

const Registration rung({.prev = "v24",
                         .idea = "stream-K: no CTA idles in the last wave",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, choose), bfloat16(VARIANTS<bf16>, choose)});

}  // namespace
