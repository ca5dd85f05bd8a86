// v17w wgmma: four warps multiply 64 x 128 x 16 in one instruction, straight from shared memory.
//
// before: v17t's warps load fragments with ldmatrix and multiply 16 x 8 x 16 at a time. Shared
//         memory is read several times over, and mma.sync stops at three quarters of the peak.
// idea:   wgmma reads both operands from shared memory. A 64-bit descriptor says where one lies:
//         start address, two strides, swizzle mode. Only accumulators pass through registers.
// watch:  A k-tile of 128 x 128 x 64 takes 8 wgmma instructions and no ldmatrix. There is still one
//         buffer: a CTA waits for its k-tile with nothing to multiply.
// needs:  It needs sm_90a. Operands with rows that TMA cannot address are copied first.
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 64;  // CTA tile
constexpr int MMA_M = 64, MMA_K = 16;       // one wgmma, BN wide
constexpr int GROUP_M = 16;                 // rows of tiles that are worked on together
constexpr int THREADS = 128;                // one warpgroup
constexpr uint32_t ROW_BYTES = 128;         // of a panel: 64 elements, the swizzle's span
constexpr uint32_t PANEL_BYTES = 64 * ROW_BYTES;

// [region idea]
// Where an operand of one wgmma lies: addresses and strides in units of 16 bytes, 14 bits each.
template <Major MAJOR>
GEMM_DEVICE uint64_t wgmma_descriptor(const void* tile) {
  // Bits 0-13, start address: of the operand's first element in shared memory.
  const uint64_t start = tile_address(tile) >> 4 & 0x3FFF;
  // Bits 16-29, leading dimension byte offset: MN-major, to the panel of the next 64 columns.
  // K-major, the 16 of k lie within a swizzled row, and the field is not used.
  const uint64_t leading = (MAJOR == Major::K ? 16 : PANEL_BYTES) >> 4;
  // Bits 32-45, stride dimension byte offset: to the next eight rows of a panel.
  const uint64_t stride = 8 * ROW_BYTES >> 4;
  // Bits 49-51, base offset: 0, as panels start at multiples of 1024 bytes.
  // Bits 62-63, swizzle mode: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32.
  const uint64_t swizzle = 1;
  return start | leading << 16 | stride << 32 | swizzle << 62;
}

// What 16 of k further adds to a descriptor: 32 bytes of a row or, MN-major, 16 rows.
template <Major MAJOR>
constexpr uint64_t K_STEP = (MAJOR == Major::K ? MMA_K * 2 : MMA_K * ROW_BYTES) >> 4;
// [/region idea]

template <class TileA, class TileB>
struct Shared {             // every panel starts at a multiple of 1024 bytes
  uint8_t A[TileA::BYTES];  // (BM, BK) or, transposed, (BM / 64, BK, 64)
  uint8_t B[TileB::BYTES];  // (BN / 64, BK, 64) or, transposed, (BN, BK)
  uint64_t full;            // the mbarrier
};

template <class T, Major A_MAJOR, Major B_MAJOR>
__global__ void __launch_bounds__(THREADS, 2)
    gemm_v17w(GemmArgs<T> p, bool aligned_c, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_b) {
  using TileA = OperandTile<T, BM, A_MAJOR>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  // Where am I?
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, k_tiles = cdiv(p.K, BK);
  auto& s = *static_cast<Shared<TileA, TileB>*>(dynamic_shared());
  if (tid == 0) {
    mbarrier_init(&s.full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();

  // [region loop]
  float acc[BM / MMA_M][BN / 2] = {};  // (2, 64 x 128 of C by 128 threads: 64 values each)
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    if (tid == 0) {
      mbarrier_arrive_expect_tx(&s.full, TileA::BYTES + TileB::BYTES);
      TileA::load(s.A, map_a, bm * BM, k_tile * BK, &s.full);
      TileB::load(s.B, map_b, bn * BN, k_tile * BK, &s.full);
    }
    mbarrier_wait(&s.full, k_tile % 2);
    wgmma_fence();  // ordinary instructions wrote the accumulators before
#pragma unroll
    for (int k = 0; k < BK / MMA_K; ++k)
#pragma unroll
      for (int i = 0; i < BM / MMA_M; ++i)  // 64 rows of A: a panel, of either major
        wgmma<T, BN, A_MAJOR, B_MAJOR>(
            acc[i], wgmma_descriptor<A_MAJOR>(s.A + i * PANEL_BYTES) + k * K_STEP<A_MAJOR>,
            wgmma_descriptor<B_MAJOR>(s.B) + k * K_STEP<B_MAJOR>, true);
    wgmma_commit();
    wgmma_wait<0>();  // all of the warpgroup have ended, and have read the tile
  }
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i) fence_operand(acc[i]);
    // [/region loop]

    // Epilogue.
#pragma unroll
  for (int i = 0; i < BM / MMA_M; ++i)
    store_accumulators(p, aligned_c, bm * BM + i * MMA_M, bn * BN, acc[i]);
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const TmaOperands<T> in(p, stream);
  with_majors(p, [&](auto a, auto b) {
    using TileA = OperandTile<T, BM, a()>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(gemm_v17w<T, a(), b()>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileA, TileB>)}, stream, p, has_aligned_c(p),
                 TileA::map(in.A.data, p.M, p.K, in.A.ld),
                 TileB::map(in.B.data, p.N, p.K, in.B.ld));
  });
}

const Registration rung({.prev = "v17t",
                         .idea = "wgmma: four warps multiply from shared memory, by descriptors",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(launch<half>)});

}  // namespace
