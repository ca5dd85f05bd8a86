// v1u uncoalesced: v1 with the two thread indices swapped, to see what coalescing is worth.
//
// before: v1's warp walks along a row of C: its loads of B and its stores of C touch 4 sectors a
//         request
// idea:   a warp walks down a column of C instead; not one multiply-add more or less
// watch:  32 sectors a request for A and for C, of which each thread uses 4 bytes
// needs:  any GPU
#include "device/epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32;  // block tile: one thread an element, one warp a column
static_assert(BM * BN <= 1024, "a CTA has at most 1024 threads");

template <class T>
__global__ void __launch_bounds__(BM* BN) gemm_v01u(GemmArgs<T> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  // [region idea]
  const int m = bm * BM + threadIdx.x;
  const int n = bn * BN + threadIdx.y;
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

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_v01u<T>, grid, dim3(BM, BN), {}, stream, p);
}

const Registration rung({.prev = "v1", .idea = "v1 with swapped thread indices: uncoalesced"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
