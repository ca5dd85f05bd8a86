// v4 remapped copies: the flat thread id decides what a thread copies.
//
// before: v3 copies with its compute mapping. For A 8 of 32 lanes work; for B the lanes read
//         columns that lie 4 apart.
// idea:   Copying and computing need not agree. For the copy, neighbours in `tid` take neighbouring
//         elements of a row.
// watch:  Every lane copies, and every sector is used whole. In f32 a request has 4 sectors, for A
//         (4 rows of 32 bytes) and for B (128 bytes in a row); in f16 it has 2.
// needs:  Any GPU runs it.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128;               // block tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 32 x 32
template <class T>
constexpr int BK = 32 / sizeof(T);  // depth of a k-tile: 32 bytes of each row of A, one sector
static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");

// [region idea]
// Copies a tile, zero outside the matrix, of which `rows` and `cols` are left: neighbours in tid
// take neighbours in a row.
template <int ROWS, int COLS, class T>
GEMM_DEVICE void copy_tile(T (&s)[ROWS][COLS], const T* g, int64_t ld, int rows, int cols,
                           int tid) {
  static_assert(ROWS * COLS % THREADS == 0, "every thread copies the same number of elements");
#pragma unroll
  for (int i = 0; i < ROWS * COLS / THREADS; ++i) {
    const int c = i * THREADS + tid;
    const int row = c / COLS, col = c % COLS;
    s[row][col] = load_or_zero(g, ld, row, col, rows, cols);
  }
}
// [/region idea]

template <class T>
__global__ void __launch_bounds__(THREADS) gemm_v04(GemmArgs<T> p) {
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
    copy_tile(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
    copy_tile(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
#pragma unroll
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
      for (int j = 0; j < TN; ++j)
        store(out, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_v04<T>, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v3", .idea = "copies remapped by the flat thread id: coalesced"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
