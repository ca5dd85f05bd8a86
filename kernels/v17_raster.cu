// v17 raster: blocks that run at the same time work on a compact patch of C.
//
// before: v16's 132 CTAs in flight take tiles row by row: in a 32768-wide matrix they lie in two
//         rows of tiles and read all of B, which passes through L2 again for the next two rows
// idea:   number the tiles in groups of 8 rows, column by column within a group: 132 tiles are 8
//         rows x 17 columns, a patch of 1024 x 4352 elements, and need few rows of A and few
//         columns of B
// watch:  hits in L2 and bytes from HBM; nothing changes inside of a block, so nothing at a size of
//         which both operands stay in L2
// needs:  sm_80; a narrow kernel, which copies through registers, for unaligned rows
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/mma.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy_async.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 32, STAGES = 4;  // CTA tile, k-tiles in the pipeline
constexpr int WM = 64, WN = 64;                         // warp tile
constexpr int GROUP_M = 8;                              // rows of tiles that are worked on together
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;        // one mma.sync
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;     // 2 x 4 warps
static_assert(BK / MMA_K % 2 == 0, "fragments alternate between two buffers, k-tile after k-tile");

template <class T>
struct Stage {
  T A[BM][BK], B[BK][BN];
};

// [region idea]
// Where a block works: tiles are counted in groups of GROUP_M rows of tiles, within a group column
// by column; the last group may have fewer rows.
struct TileIndex {
  int m, n;
};
template <int GROUP_M>
GEMM_DEVICE constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n) {
  const int group = tile / (GROUP_M * tiles_n), within = tile % (GROUP_M * tiles_n);
  const int left = tiles_m - group * GROUP_M, rows = left < GROUP_M ? left : GROUP_M;
  return {group * GROUP_M + within % rows, within / rows};
}
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1) gemm_v17(GemmArgs<T> p) {
  // Where am I? Lane = 4 * g + t in every accumulator.
  const auto [bm, bn] = grouped_tile<GROUP_M>(blockIdx.x, cdiv(p.M, BM), cdiv(p.N, BN));
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  auto* stages = static_cast<Stage<T>*>(dynamic_shared());

  // [region copy]
  // The next k-tile's copies, one group; past the end of K zeros, so that every wait counts alike.
  int copied = 0;
  const auto copy_next = [&] {
    Stage<T>& s = stages[copied % STAGES];
    const int left = p.K - copied * BK;
    copy_tile_swizzled_async<ALIGNED, THREADS>(s.A, gA, p.lda, p.M - bm * BM, left, tid);
    copy_tile_swizzled_async<ALIGNED, THREADS>(s.B, gB, p.ldb, left, p.N - bn * BN, tid);
    cp_async_commit();
    ++copied;
    gA += BK;
    gB += BK * p.ldb;
  };
  // [/region copy]
  uint32_t rA[2][WM / MMA_M][4], rB[2][WN / MMA_N / 2][2][2];
  const auto load = [&](int k_tile, int k) {
    Stage<T>& s = stages[k_tile % STAGES];
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i) load_a(rA[k / MMA_K % 2][i], s.A, wm + i * MMA_M, k);
#pragma unroll
    for (int j = 0; j < WN / MMA_N / 2; ++j)
      load_b(rB[k / MMA_K % 2][j], s.B, k, wn + j * 2 * MMA_N);
  };

  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  // [region loop]
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy_next();
  cp_async_wait<STAGES - 2>();
  __syncthreads();
  load(0, 0);
  for (int k_tile = 0; k_tile * BK < p.K; ++k_tile) {
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      if (k + MMA_K < BK) {
        load(k_tile, k + MMA_K);
      } else {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
        load(k_tile + 1, 0);
      }
      if (k == 0) copy_next();  // over the k-tile before this one
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; ++j)
          mma<T>(acc[i][j], rA[k / MMA_K % 2][i], rB[k / MMA_K % 2][j / 2][j % 2]);
    }
  }
  // [/region loop]

  // Epilogue: lane (g, t) holds columns 2t and 2t + 1 of rows g and g + 8.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 4; r += 2)
          store_pair<ALIGNED>(out, bm * BM + wm + i * MMA_M + g + r * 4,
                              bn * BN + wn + j * MMA_N + 2 * t, acc[i][j][r], acc[i][j][r + 1]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v17<T, true> : gemm_v17<T, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage<T>)}, stream, p);
}

const Registration rung({.prev = "v16",
                         .idea = "L2 rasterisation: block tiles in groups of rows",
                         .needs = {.sm = 80}},
                        {f16(launch<half>)});

}  // namespace
