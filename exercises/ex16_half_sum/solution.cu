// ex16: half in, half out, one thread an element, as in v1.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 8, BN = 32;  // block tile: one thread an element

__global__ void gemm_ex16(GemmArgs<half> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int m = bm * BM + threadIdx.y, n = bn * BN + threadIdx.x;

  float acc = 0;
  if (m < p.M && n < p.N)
    for (int k = 0; k < p.K; ++k) acc += float(p.A[m * p.lda + k]) * float(p.B[k * p.ldb + n]);

  store(p, m, n, float(acc));
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex16, grid, dim3(BN, BM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
