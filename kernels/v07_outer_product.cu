// v7 outer product: fragments of A and B in registers, read by 128-bit shared loads.
//
// before: v6 reads shared memory 4 bytes at a time: 16 loads for 64 multiply-adds.
// idea:   C is a sum of outer products, one per k: a column of A's tile times a row of B's. A
//         thread first reads its 8 + 8 values of that column and row, by two 128-bit loads each.
//         Then it does 64 multiply-adds without touching memory.
// watch:  There are 4 load instructions instead of 16. The thread tile is interleaved by groups of
//         16 bytes, still without a conflict.
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

// Row (or column) i of the thread tile at `t`: neighbouring threads take neighbouring 16-byte
// groups. TILES: thread tiles along that side of the block tile.
template <int VEC, int TILES>
constexpr GEMM_DEVICE int tile_row(int t, int i) {
  return i / VEC * (TILES * VEC) + t * VEC + i % VEC;
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v07(GemmArgs<T> p) {
  constexpr int VEC = Vec<T>::SIZE;
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ T sA[BK<T>][BM + VEC], sB[BK<T>][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK<T>) {
    copy_tile_transposed<ALIGNED, THREADS, BM, BK<T>>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0,
                                                      tid);
    copy_tile_by_groups<ALIGNED, THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
// [region idea]
#pragma unroll
    for (int k = 0; k < BK<T>; ++k) {
      float rA[TM], rB[TN];
      load_fragment(rA, &sA[k][tm * VEC], BM / TM * VEC);
      load_fragment(rB, &sB[k][tn * VEC], BN / TN * VEC);
#pragma unroll
      for (int j = 0; j < TN; ++j)
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    // [/region idea]
    __syncthreads();
  }

  // Epilogue.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += VEC)
        store_group<ALIGNED>(out, bm * BM + tile_row<VEC, BM / TM>(tm, i),
                             bn * BN + tile_row<VEC, BN / TN>(tn, j), &acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v07<T, true> : gemm_v07<T, false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v6",
                         .idea = "outer products from registers, 128-bit shared loads"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
