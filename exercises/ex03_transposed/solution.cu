// ex03: one thread, one element of C, as in v1. C = alpha * op(A) * op(B) + beta * C.
//
// op(X) is X, or X transposed where p.op_a or p.op_b is Op::T. op(A) is M x K and op(B) is K x N,
// so a transposed A is stored as K rows of M elements, and a transposed B as N rows of K.
#include "device/epilogue.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 8, BN = 32;  // block tile: one thread an element

__global__ void gemm_ex03(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int m = bm * BM + threadIdx.y, n = bn * BN + threadIdx.x;

  // The distance from an element of op(A) to its neighbour in the next row, and in the next
  // column.
  const int64_t a_m = p.op_a == Op::N ? p.lda : 1, a_k = p.op_a == Op::N ? 1 : p.lda;
  const int64_t b_k = p.op_b == Op::N ? p.ldb : 1, b_n = p.op_b == Op::N ? 1 : p.ldb;
  float acc = 0;
  if (m < p.M && n < p.N)
    for (int k = 0; k < p.K; ++k) acc += p.A[m * a_m + k * a_k] * p.B[k * b_k + n * b_n];

  store(p, m, n, acc);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex03, grid, dim3(BN, BM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
