// v12 multistage: a pipeline of k-tiles, filled by cp.async past the registers.
//
// before: v11 has one k-tile on its way, waiting in registers, and its warps meet every 8 steps of
//         k
// idea:   cp.async copies 16 bytes of B from global to shared memory, and no register sees them.
//         It fills a pipeline of three k-tiles, each twice as deep, two ahead. A has to be
//         transposed, which no copy can do: one half is fetched early in a k-tile and stored in
//         its middle, the other fetched there and stored at its end
// watch:  half the barriers; a multiply-add waits only for copies that were asked for two k-tiles
//         ago; half the registers of v11's next k-tile hold the A of one twice as deep
// needs:  sm_80; a second, narrow kernel serves rows that are not whole aligned 16-byte groups
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, STAGES = 3;        // CTA tile, k-tiles in the pipeline
constexpr int WM = 32, WN = 64;                      // warp tile
constexpr int TM = 8, TN = 8;                        // thread tile
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 4 x 2 warps
template <class T>
constexpr int BK = 64 / sizeof(T);  // depth of a k-tile: 64 bytes of each row of A, two sectors
static_assert(BM * 32 == THREADS * 16,
              "each thread copies one vector of either half of A's k-tile");
static_assert(WM / TM == 4 && WN / TN == 8, "lane_m and lane_n: 4 x 8 lanes");

// The thread tile of a lane, as in v11: lanes l and l ^ 1 read the same words of A, l and l ^ 2 the
// same words of B.
GEMM_DEVICE int lane_m(int lane) { return lane >> 1 & 3; }
GEMM_DEVICE int lane_n(int lane) { return (lane & 1) | lane >> 3 << 1; }

template <class T>
struct Stage {
  T A[BK<T>][BM + Vec<T>::SIZE], B[BK<T>][BN];
};

// [region idea]
// Starts the copy of a ROWS x COLS tile into rows of STRIDE elements, with zeros outside of the
// matrix. Complete after cp_async_wait and a barrier. If not ALIGNED (all_aligned), cp.async cannot
// be used: plain loads and stores.
template <bool ALIGNED, int THREADS, int ROWS, int COLS, int STRIDE, class T>
GEMM_DEVICE void copy_tile_async(T (&s)[ROWS][STRIDE], const T* g, int64_t ld, int rows, int cols,
                                 int tid) {
  constexpr int VEC = Vec<T>::SIZE, STEP = THREADS / (COLS / VEC);  // rows that are copied at once
  static_assert(ROWS % STEP == 0, "every thread copies the same number of groups");
  const int row = tid / (COLS / VEC), col = tid % (COLS / VEC) * VEC;
  const T* from = g + row * ld + col;
#pragma unroll(ALIGNED ? ROWS / STEP : 1)
  for (int r = 0; r < ROWS; r += STEP, from += STEP * ld) {
    if constexpr (ALIGNED)
      cp_async_16(&s[row + r][col], from, row + r < rows && col < cols ? 16 : 0);
    else
      store_vec(&s[row + r][col], load_group<false>(g, ld, row + r, col, rows, cols));
  }
}
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v12(GemmArgs<T> p) {
  constexpr int VEC = Vec<T>::SIZE;
  // Where am I? The grid is one-dimensional, CTA tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int tm = warp / (BN / WN) * WM + lane_m(lane) * VEC;  // the thread tile's first row
  const int tn = warp % (BN / WN) * WN + lane_n(lane) * VEC;  // and column in the CTA tile

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  auto* stages = static_cast<Stage<T>*>(dynamic_shared());

  // A goes through one vector of registers, half a k-tile at a time: 32 bytes of a row, stored
  // without more conflicts than v11's. Past the end of K the copies are zeros, so that every wait
  // counts alike.
  const int cpA_m = tid / (BK<T> / 2 / VEC), cpA_k = tid % (BK<T> / 2 / VEC) * VEC;
  Vec<T> nextA;    // half of a k-tile's A on its way
  int left = p.K;  // of the k-tiles not yet asked for
  const auto fetch_b = [&](Stage<T>& s) {
    copy_tile_async<ALIGNED, THREADS, BK<T>, BN>(s.B, gB, p.ldb, left, p.N - bn * BN, tid);
    cp_async_commit();
    gB += BK<T> * p.ldb;
  };
  const auto fetch_a = [&](int half) {
    nextA = load_group<ALIGNED>(gA, p.lda, cpA_m, cpA_k + half * (BK<T> / 2), p.M - bm * BM, left);
  };
  const auto commit_a = [&](Stage<T>& s, int half) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) s.A[cpA_k + half * (BK<T> / 2) + e][cpA_m] = nextA[e];
  };
  const auto advance = [&] {
    gA += BK<T>;
    left -= BK<T>;
  };

  float acc[TM][TN] = {};
  for (int s = 0; s < STAGES - 1; ++s) {
    fetch_b(stages[s]);
    for (int half = 0; half < 2; ++half) {
      fetch_a(half);
      commit_a(stages[s], half);
    }
    advance();
  }
  int read = 0, write = STAGES - 1;  // stages
  for (int k0 = 0; k0 < p.K; k0 += BK<T>) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // after it this k-tile is there, and nobody reads the one before any more
    fetch_b(stages[write]);
    fetch_a(0);
#pragma unroll
    for (int k = 0; k < BK<T>; ++k) {
      if (k == BK<T> / 2) {
        commit_a(stages[write], 0);
        fetch_a(1);
      }
      float rA[TM], rB[TN];
      load_fragment(rA, &stages[read].A[k][tm], WM / TM * VEC);
      load_fragment(rB, &stages[read].B[k][tn], WN / TN * VEC);
#pragma unroll
      for (int j = 0; j < TN; ++j)
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    commit_a(stages[write], 1);
    advance();
    read = (read + 1) % STAGES;
    write = (write + 1) % STAGES;
  }

  // Epilogue.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += VEC)
        store_group<ALIGNED>(out, bm * BM + tm + tile_row<VEC, WM / TM>(0, i),
                             bn * BN + tn + tile_row<VEC, WN / TN>(0, j), &acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v12<T, true> : gemm_v12<T, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage<T>)}, stream, p);
}

const Registration rung({.prev = "v11",
                         .idea = "cp.async into three stages, A by way of registers",
                         .needs = {.sm = 80}},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
