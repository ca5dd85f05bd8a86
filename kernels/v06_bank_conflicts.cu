// v6 bank conflicts: A transposed in shared memory, thread tiles interleaved.
//
// before: In v5 the 2 rows of A that a warp reads lie 64 words apart (2-way), and its 16 columns of
//         B lie 8 words apart (4-way).
// idea:   sA becomes [BK][BM], so that rows are neighbours. Thread (tm, tn) takes rows tm, tm + 16,
//         ... and columns tn, tn + 16, ..., so that lanes read neighbouring words. Transposing
//         alone would mend A's 2 rows, and nothing of B.
// watch:  Conflicts move to where A is stored. One 16-byte group of padding per row keeps those
//         stores apart in f32. In f16 they stay 2-way, and no padding of whole groups helps.
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
static_assert(BM == BN && TM == TN, "tile_row serves rows and columns");
static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");

// [region idea]
// Copies a ROWS x COLS tile by 16-byte groups along its rows, and stores it transposed.
template <bool ALIGNED, int ROWS, int COLS, int STRIDE, class T>
GEMM_DEVICE void copy_tile_transposed(T (&s)[COLS][STRIDE], const T* g, int64_t ld, int rows,
                                      int cols, int tid) {
  constexpr int VEC = Vec<T>::SIZE;
  static_assert(ROWS * COLS / VEC % THREADS == 0, "every thread copies the same number of groups");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / VEC / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / (COLS / VEC), col = c % (COLS / VEC) * VEC;
    const Vec<T> v = load_group<ALIGNED>(g, ld, row, col, rows, cols);
#pragma unroll
    for (int e = 0; e < VEC; ++e) s[col + e][row] = v[e];
  }
}

// Row (or column) i of the thread tile at `t`: neighbouring threads take neighbouring rows.
constexpr GEMM_DEVICE int tile_row(int t, int i) { return i * (BM / TM) + t; }
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v06(GemmArgs<T> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ T sA[BK<T>][BM + Vec<T>::SIZE], sB[BK<T>][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK<T>) {
    copy_tile_transposed<ALIGNED, BM, BK<T>>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
    copy_tile_by_groups<ALIGNED, THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < BK<T>; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          acc[i][j] += float(sA[k][tile_row(tm, i)]) * float(sB[k][tile_row(tn, j)]);
    __syncthreads();
  }

  // Epilogue.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j)
        store(out, bm * BM + tile_row(tm, i), bn * BN + tile_row(tn, j), acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v06<T, true> : gemm_v06<T, false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v5",
                         .idea = "bank conflicts: A transposed, thread tile interleaved"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
