// v5 float4: 128-bit global loads and stores.
//
// before: v4 needs one load instruction, one address and one bounds check for every 4 bytes.
// idea:   A thread moves 16 bytes per request, with a quarter of the instructions and requests.
//         With 8 x 8 elements per thread, 256 threads copy exactly one vector each of A and of B.
// watch:  Registers become scarce: with 64 accumulators per thread, 2 CTAs fit on an SM. Shared
//         memory is now read with conflicts.
// needs:  Any GPU. A second kernel serves rows whose start or length is no multiple of 16 bytes.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128;               // block tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16
template <class T>
constexpr int BK = 32 / sizeof(T);  // depth of a k-tile: 32 bytes of each row of A, one sector
static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");

// [region idea]
// 16 bytes of `row` from `col` on, zero outside. ALIGNED: rows are whole aligned groups of 16
// bytes, each inside or outside; then one 128-bit load does it. Else element by element.
template <bool ALIGNED, class T>
GEMM_DEVICE Vec<T> load_group(const T* g, int64_t ld, int row, int col, int rows, int cols) {
  Vec<T> v = {};
  if constexpr (ALIGNED) {
    if (row < rows && col < cols) v = load_vec(g + row * ld + col);
  } else {
#pragma unroll
    for (int e = 0; e < Vec<T>::SIZE; ++e) v.set(e, load_or_zero(g, ld, row, col + e, rows, cols));
  }
  return v;
}

template <bool ALIGNED, int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile_by_groups(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows, int cols,
                                     int tid) {
  constexpr int VEC = Vec<T>::SIZE;
  static_assert(ROWS * COLS / VEC % THREADS == 0, "every thread copies the same number of groups");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / VEC / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / (COLS / VEC), col = c % (COLS / VEC) * VEC;
    store_vec(&s[row][col], load_group<ALIGNED>(g, ld, row, col, rows, cols));
  }
}
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v05(GemmArgs<T> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ T sA[BM][BK<T>], sB[BK<T>][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK<T>) {
    copy_tile_by_groups<ALIGNED>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
    copy_tile_by_groups<ALIGNED>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
#pragma unroll 2  // fully unrolled it needs 32 bytes of spills per thread
    for (int k = 0; k < BK<T>; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          acc[i][j] += float(sA[tm * TM + i][k]) * float(sB[k][tn * TN + j]);
    __syncthreads();
  }

  // Epilogue.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += Vec<T>::SIZE)
        store_group<ALIGNED>(out, bm * BM + tm * TM + i, bn * BN + tn * TN + j, &acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v05<T, true> : gemm_v05<T, false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v4", .idea = "128-bit global loads and stores"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
