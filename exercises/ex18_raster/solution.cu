// ex18: block tiles in groups of rows, so that blocks that run together share rows of A and columns
// of B in the L2 cache.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 16, BN = 16, BK = 16;  // block tile: one thread an element
constexpr int GROUP = 4;                  // rows of tiles in a group

__global__ void gemm_ex18(GemmArgs<float> p) {
  // Column by column within a group, then the next group below.
  const int tiles_m = cdiv(p.M, BM), tiles_n = cdiv(p.N, BN);
  const int in_group = GROUP * tiles_n, first = blockIdx.x / in_group * GROUP;
  const int rows = tiles_m - first < GROUP ? tiles_m - first : GROUP;  // the last may have fewer
  const int bm = first + blockIdx.x % in_group % rows;
  const int bn = blockIdx.x % in_group / rows;

  const int tm = threadIdx.y, tn = threadIdx.x;
  const int m = bm * BM + tm, n = bn * BN + tn;
  alignas(16) __shared__ float sA[BM][BK], sB[BK][BN];

  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    sA[tm][tn] = load_or_zero(p.A, p.lda, m, k0 + tn, p.M, p.K);
    sB[tm][tn] = load_or_zero(p.B, p.ldb, k0 + tm, n, p.K, p.N);
    __syncthreads();
    for (int k = 0; k < BK; ++k) acc += sA[tm][k] * sB[k][tn];
    __syncthreads();
  }
  store(p, m, n, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex18, grid, dim3(BN, BM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
