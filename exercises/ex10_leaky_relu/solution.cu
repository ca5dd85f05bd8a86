// ex10: the tiles of v4, and an activation: C = f(alpha * A * B + beta * C), where f(x) is x for
// x >= 0 and slope * x below: leaky ReLU.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 8;         // block tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

GEMM_DEVICE float leaky_relu(float x, float slope) { return x >= 0 ? x : slope * x; }

__global__ void __launch_bounds__(THREADS) gemm_ex10(GemmArgs<float> p, float slope) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    copy_tile<THREADS>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
    copy_tile<THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[tm * TM + i][k] * sB[k][tn * TN + j];
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      const int m = bm * BM + tm * TM + i, n = bn * BN + tn * TN + j;
      if (m >= p.M || n >= p.N) continue;
      float* c = p.C + m * p.ldc + n;
      const float x = p.epilogue.alpha * acc[i][j];
      *c = leaky_relu(p.epilogue.beta == 0 ? x : x + p.epilogue.beta * *c, slope);
    }
}

void launch(const GemmArgs<float>& p, float slope, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex10, grid, dim3(BN / TN, BM / TM), {}, stream, p, slope);
}

const Exercise exercise(launch);

}  // namespace
