// ex29: split-K, whose groups hand their sums over through shared memory.
#include "device/epilogue.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 8, BN = 32, SPLITS = 4;  // block tile; groups of threads that share K

__global__ void __launch_bounds__(BM* BN* SPLITS) gemm_ex29(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tn = threadIdx.x, tm = threadIdx.y, split = threadIdx.z;
  const int m = bm * BM + tm, n = bn * BN + tn;
  __shared__ half sums[SPLITS][BM][BN];

  const int span = cdiv(p.K, SPLITS), begin = split * span,
            end = p.K < begin + span ? p.K : begin + span;
  float acc = 0;
  if (m < p.M && n < p.N)
    for (int k = begin; k < end; ++k) acc += p.A[m * p.lda + k] * p.B[k * p.ldb + n];
  sums[split][tm][tn] = half(acc);
  __syncthreads();
  if (split > 0) return;

  float sum = 0;
  for (int s = 0; s < SPLITS; ++s) sum += float(sums[s][tm][tn]);
  store(p, m, n, sum);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex29, grid, dim3(BN, BM, SPLITS), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
