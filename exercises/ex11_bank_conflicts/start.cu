// ex11: A transposed in shared memory, as in v6, and padded, so that its stores meet no conflicts.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 8;       // block tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) gemm_ex11(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BK][BM + 4], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    copy_tile_transposed<ALIGNED, THREADS, BM, BK>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0,
                                                   tid);
    copy_tile_by_groups<ALIGNED, THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[k][tm * TM + i] * sB[k][tn * TN + j];
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_ex11<true> : gemm_ex11<false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
