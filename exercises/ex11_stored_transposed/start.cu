// ex11: C = A^T * B from tiles in shared memory, as in v2. A is stored as K rows of M elements.
#include "device/epilogue.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32, BK = 32;  // block tile: one thread an element

__global__ void __launch_bounds__(BM* BN) gemm_ex11(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int m = bm * BM + tm, n = bn * BN + tn;

  __shared__ float sA[BM][BK], sB[BK][BN];

  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    const int k = k0 + threadIdx.y, copied_m = bm * BM + threadIdx.x;
    const bool inside = k < p.K;
    sA[threadIdx.x][threadIdx.y] = inside && copied_m < p.M ? p.A[k * p.lda + copied_m] : 0;
    sB[threadIdx.y][threadIdx.x] = inside && n < p.N ? p.B[k * p.ldb + n] : 0;
    __syncthreads();
    for (int i = 0; i < BK; ++i) acc += sA[tm][i] * sB[i][tn];
    __syncthreads();
  }

  store(p, m, n, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex11, grid, dim3(BN, BM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
