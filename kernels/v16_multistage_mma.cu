// v16 multistage: three k-tiles are on their way while the fourth is multiplied.
//
// before: v15 fetches one k-tile ahead, through registers; a k-tile is multiplied faster than
//         memory answers, and the fragments of a step are waited for before its first mma
// idea:   cp.async copies 16 bytes from global to shared memory past the registers, into a pipeline
//         of four stages: the wait is for the oldest copies only. The registers that fetching
//         needed hold the fragments of two steps: one is loaded while the other is multiplied
// watch:  64 x 64 warp tiles: 8 shared loads for 32 mma instead of 6 for 16, half of v10's traffic
//         per multiply-add; 96 KiB of shared memory and one block on an SM
// needs:  sm_80; a narrow kernel, which copies through registers, for unaligned rows
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/fragments.cuh"
#include "device/mma.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 256, BK = 32, STAGES = 4;  // CTA tile, k-tiles in the pipeline
constexpr int WM = 64, WN = 64;                         // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;        // one mma.sync
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;     // 2 x 4 warps
static_assert(BK / MMA_K % 2 == 0, "fragments alternate between two buffers, k-tile after k-tile");

template <class T>
struct Stage {
  T A[BM][BK], B[BK][BN];
};

// [region idea]
// Starts the copy of a tile into its swizzled place, with zeros outside of the matrix. Complete
// after cp_async_wait and a barrier. If not ALIGNED, cp.async cannot be used: plain loads and
// stores.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile_swizzled_async(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows,
                                          int cols, int tid) {
  constexpr int VEC = Vec<T>::SIZE, STEP = THREADS / (COLS / VEC);  // rows that are copied at once
  static_assert(ROWS % STEP == 0, "every thread copies the same number of groups");
  const int row = tid / (COLS / VEC), col = tid % (COLS / VEC) * VEC;
  const T* from = g + row * ld + col;
#pragma unroll(ALIGNED ? ROWS / STEP : 1)
  for (int r = 0; r < ROWS; r += STEP, from += STEP * ld) {
    T* to = swizzled(s, row + r, col);
    if constexpr (ALIGNED)
      cp_async_16(to, from, row + r < rows && col < cols ? 16 : 0);
    else
      store_vec(to, load_group<false>(g, ld, row + r, col, rows, cols));
  }
}
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1) gemm_v16(GemmArgs<T> p) {
  // Where am I? Lane = 4 * g + t in every accumulator.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  auto* stages = static_cast<Stage<T>*>(dynamic_shared());

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
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy_next();
  cp_async_wait<STAGES - 2>();
  __syncthreads();
  load(0, 0);
  // [region loop]
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
  const auto kernel = all_aligned(p) ? gemm_v16<T, true> : gemm_v16<T, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage<T>)}, stream, p);
}

const Registration rung({.prev = "v15",
                         .idea = "cp.async into four stages, fragments double-buffered",
                         .needs = {.sm = 80}},
                        {f16(launch<half>)});

}  // namespace
