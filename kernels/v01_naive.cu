// v1 naive: one thread computes one element of C.
//
// before: The serial program is three nested loops, which take M * N * K steps one after another.
// idea:   The two outer loops disappear: every (m, n) gets a thread of its own, and neighbours in a
//         warp get neighbouring columns.
// watch:  For 32 multiply-adds a warp reads 1 sector of A, where all lanes want one element, and 4
//         of B, where 32 lanes want neighbours.
// needs:  Any GPU runs it.
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32;  // block tile: one thread per element, one warp per row
static_assert(BM * BN <= 1024, "a CTA has at most 1024 threads");

// C = alpha * acc + beta * C at one element. Without beta, C is not read: it may hold NaN.
template <class T, class TC>
GEMM_DEVICE void store(const GemmArgs<T, T, TC>& p, int m, int n, float acc) {
  if (m >= p.M || n >= p.N) return;
  TC* c = p.C + m * p.ldc + n;
  *c = TC(p.epilogue(acc, p.epilogue.reads_c() ? float(*c) : 0.0f));
}

template <class T, class TC>
__global__ void __launch_bounds__(BM* BN) gemm_v01(GemmArgs<T, T, TC> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  // [region idea]
  const int m = bm * BM + threadIdx.y;
  const int n = bn * BN + threadIdx.x;
  // [/region idea]

  // Main loop: row m of A times column n of B.
  float acc = 0;
  // [region main]
  if (m < p.M && n < p.N)
    for (int k = 0; k < p.K; ++k) acc += float(p.A[m * p.lda + k]) * float(p.B[k * p.ldb + n]);
  // [/region main]

  // Epilogue.
  store(p, m, n, acc);
}

template <class T, class TC = T>
void launch(const GemmArgs<T, T, TC>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_v01<T, TC>, grid, dim3(BN, BM), {}, stream, p);
}

const Registration rung({.prev = "", .idea = "one thread, one element of C"},
                        {f32(launch<float>), f16(launch<half>),
                         entry(DType::f16_f32, launch<half, float>),
                         entry(DType::bf16_f32, launch<bf16, float>)});

}  // namespace
