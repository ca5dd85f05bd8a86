// ex13: two buffers, as in v8: while one k-tile is multiplied, the next one is copied.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 8;         // block tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

__global__ void __launch_bounds__(THREADS) gemm_ex13(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[2][BM][BK], sB[2][BK][BN];

  float acc[TM][TN] = {};
  const auto copy = [&](int stage, int k0) {
    copy_tile<THREADS>(sA[stage], gA + k0, p.lda, p.M - bm * BM, p.K - k0, tid);
    copy_tile<THREADS>(sB[stage], gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
  };
  const auto multiply = [&](int stage) {
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
          acc[i][j] += sA[stage][tm * TM + i][k] * sB[stage][k][tn * TN + j];
  };

  const int k_tiles = BK / p.K;
  copy(0, 0);
  __syncthreads();
  int stage = 0;
  for (int s = 1; s < k_tiles; ++s, stage ^= 1) {
    copy(stage ^ 1, s * BK);
    multiply(stage);
    __syncthreads();
  }
  multiply(stage);

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex13, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
