// v3 thread tiles: one thread computes TM x TN elements of C.
//
// before: v2 does two shared loads for every multiply-add. The pipe for loads is full, not the one
//         for arithmetic.
// idea:   A thread keeps a 4 x 4 tile of C in registers: 8 shared values feed 16 multiply-adds.
// watch:  The copies follow the compute mapping, so most lanes idle (A) or stride over 4 columns
//         (B). v4 mends that.
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

template <class T>
__global__ void __launch_bounds__(THREADS) gemm_v03(GemmArgs<T> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ T sA[BM][BK<T>], sB[BK<T>][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK<T>) {
    // Copy where we compute: A by the first BK columns of threads, B by the first BK rows of
    // threads.
    for (int i = 0; i < TM; ++i)
      if (tn < BK<T>)
        sA[tm * TM + i][tn] =
            load_or_zero(gA + k0, p.lda, tm * TM + i, tn, p.M - bm * BM, p.K - k0);
    for (int j = 0; j < TN; ++j)
      if (tm < BK<T>)
        sB[tm][tn * TN + j] =
            load_or_zero(gB + k0 * p.ldb, p.ldb, tm, tn * TN + j, p.K - k0, p.N - bn * BN);
    __syncthreads();
    // [region idea]
#pragma unroll
    for (int k = 0; k < BK<T>; ++k)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j)
          acc[i][j] += float(sA[tm * TM + i][k]) * float(sB[k][tn * TN + j]);
    // [/region idea]
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
  gemm::launch(gemm_v03<T>, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v2",
                         .idea = "thread tiles: 4 x 4 elements per thread in registers"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
