// ex06: thread tiles with a block tile that is wider than it is high, in flat shared arrays.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 128, BK = 8;        // block tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 32

__global__ void __launch_bounds__(THREADS) gemm_ex06(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BM * BK], sB[BK * BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    for (int c = tid; c < BM * BK; c += THREADS) {
      const int m = c / BK, k = c % BK;
      sA[m * BK + k] = load_or_zero(gA + k0, p.lda, m, k, p.M - bm * BM, p.K - k0);
    }
    for (int c = tid; c < BK * BN; c += THREADS) {
      const int k = c / BN, n = c % BN;
      sB[k * BN + n] = load_or_zero(gB + k0 * p.ldb, p.ldb, k, n, p.K - k0, p.N - bn * BN);
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
          acc[i][j] += sA[(tm * TM + i) * BK + k] * sB[k * BN + tn * TN + j];
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex06, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
