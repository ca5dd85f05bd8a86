// v11 warp tiles: block, warp and thread tiles; lanes arranged so that they share what they read.
//
// before: a warp of v8 is 2 x 16 threads, 16 x 128 of C: 144 different words of A and B a step of
//         k, and lanes that want the same words of B are 16 apart: 12 wavefronts
// idea:   between block and thread the warp gets a tile of its own, 32 x 64, nearer to a square: 96
//         words. Lanes that share words of A or of B become neighbours, so that the hardware
//         serves them together
// watch:  8 wavefronts a step instead of 12 for the same four loads; nothing else changes
// needs:  any GPU; a second, narrow kernel serves rows that are not whole aligned 16-byte groups
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128;                    // CTA tile
constexpr int WM = 32, WN = 64;                      // warp tile
constexpr int TM = 8, TN = 8;                        // thread tile
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 4 x 2 warps
template <class T>
constexpr int BK = 32 / sizeof(T);  // depth of a k-tile: 32 bytes of each row of A, one sector
static_assert(BM == BN && BM * 32 == THREADS * 16,
              "each thread copies one vector of A and one of B");
static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");
static_assert(WM / TM == 4 && WN / TN == 8, "lane_m and lane_n: 4 x 8 lanes");

// [region idea]
// Which of a warp's 4 x 8 thread tiles a lane has. Bit 0 of the lane counts along n, bit 1 along
// m: lanes l and l ^ 1 read the same words of A, l and l ^ 2 the same words of B. Then 16 lanes,
// not 8, share a wavefront of a 128-bit load, of A and of B.
GEMM_DEVICE int lane_m(int lane) { return lane >> 1 & 3; }
GEMM_DEVICE int lane_n(int lane) { return (lane & 1) | lane >> 3 << 1; }
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v11(GemmArgs<T> p) {
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
  alignas(16) __shared__ T sA[2][BK<T>][BM + VEC], sB[2][BK<T>][BN];

  const int cpA_m = tid / (BK<T> / VEC), cpA_k = tid % (BK<T> / VEC) * VEC;
  const int cpB_k = tid / (BN / VEC), cpB_n = tid % (BN / VEC) * VEC;
  Vec<T> nextA, nextB;  // the k-tile on its way
  const auto fetch = [&](int k0) {
    nextA = load_group<ALIGNED>(gA + k0, p.lda, cpA_m, cpA_k, p.M - bm * BM, p.K - k0);
    nextB = load_group<ALIGNED>(gB + k0 * p.ldb, p.ldb, cpB_k, cpB_n, p.K - k0, p.N - bn * BN);
  };
  const auto commit = [&](int stage) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) sA[stage][cpA_k + e][cpA_m] = nextA[e];
    store_vec(&sB[stage][cpB_k][cpB_n], nextB);
  };

  float acc[TM][TN] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < p.K; k0 += BK<T>, stage ^= 1) {
    const bool more = k0 + BK<T> < p.K;
    if (more) fetch(k0 + BK<T>);
#pragma unroll
    for (int k = 0; k < BK<T>; ++k) {
      float rA[TM], rB[TN];
      load_fragment(rA, &sA[stage][k][tm], WM / TM * VEC);
      load_fragment(rB, &sB[stage][k][tn], WN / TN * VEC);
#pragma unroll
      for (int j = 0; j < TN; ++j)
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
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
  const auto kernel = all_aligned(p) ? gemm_v11<T, true> : gemm_v11<T, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {}, stream, p);
}

const Registration rung({.prev = "v8",
                         .idea = "warp tiles: lanes that share what they read are neighbours"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
