// ex07: block and thread tiles over panels that advance by BK with each k-tile.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 8;         // block tile
constexpr int TM = 4, TN = 4;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16

__global__ void __launch_bounds__(THREADS) gemm_ex07(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  int k_left = p.K;  // what is left of K from the panels' first element on
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    copy_tile<THREADS>(sA, gA, p.lda, p.M - bm * BM, k_left, tid);
    copy_tile<THREADS>(sB, gB, p.ldb, k_left, p.N - bn * BN, tid);
    __syncthreads();
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += sA[tm * TM + i][k] * sB[k][tn * TN + j];
    __syncthreads();
    gA += BK;
    gB += BK * p.ldb;
    k_left -= BK;
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex07, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
