// ex08: thread tiles whose copies use the flat thread id.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 8;       // block tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

__global__ void __launch_bounds__(THREADS) gemm_ex08(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    for (int i = 0; i < BM * BK / THREADS; ++i) {
      const int c = i * THREADS + tid;
      const int m = c % BM, k = c / BM;
      sA[m][k] = load_or_zero(gA + k0, p.lda, m, k, p.M - bm * BM, p.K - k0);
    }
    for (int i = 0; i < BK * BN / THREADS; ++i) {
      const int c = i * THREADS + tid;
      const int k = c / BN, n = c % BN;
      sB[k][n] = load_or_zero(gB + k0 * p.ldb, p.ldb, k, n, p.K - k0, p.N - bn * BN);
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[tm * TM + i][k] * sB[k][tn * TN + j];
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex08, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
