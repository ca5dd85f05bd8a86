// v2 block tiles: a CTA keeps a tile of A and a tile of B in shared memory.
//
// before: In v1 every row of A is read from global memory N times, and every column of B M times.
// idea:   A CTA copies a BM x BK tile of A and a BK x BN tile of B once, and its threads use each
//         element 32 times.
// watch:  For 32 steps of k a warp asks global memory for 8 sectors instead of 160. The price is
//         two barriers per k-tile. As written, a multiply-add needs two loads from shared memory,
//         and they are the new limit.
// needs:  Any GPU runs it.
#include "device/epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32;  // block tile: one thread per element
constexpr int BK = 32;           // depth of a k-tile
static_assert(BK == BN && BK == BM, "each thread copies one element of either tile");

// Element (row, col), or zero outside the matrix: a zero adds nothing, so the main loop needs no
// edges.
template <class T>
GEMM_DEVICE T load_or_zero(const T* g, int64_t ld, int row, int col, int rows, int cols) {
  return row < rows && col < cols ? g[row * ld + col] : T(0.0f);
}

template <class T>
__global__ void __launch_bounds__(BM* BN) gemm_v02(GemmArgs<T> p) {
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;

  // Panels.
  alignas(16) __shared__ T sA[BM][BK], sB[BK][BN];

  // Main loop: row tm of sA times column tn of sB, k-tile after k-tile.
  float acc = 0;
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    // [region idea]
    sA[tm][tn] = load_or_zero(p.A, p.lda, bm * BM + tm, k0 + tn, p.M, p.K);
    sB[tm][tn] = load_or_zero(p.B, p.ldb, k0 + tm, bn * BN + tn, p.K, p.N);
    __syncthreads();  // nobody reads a tile before all of it is there
    for (int k = 0; k < BK; ++k) acc += float(sA[tm][k]) * float(sB[k][tn]);
    __syncthreads();  // nobody overwrites a tile that another still reads
    // [/region idea]
  }

  // Epilogue.
  store(p, bm * BM + tm, bn * BN + tn, acc);
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_v02<T>, grid, dim3(BN, BM), {}, stream, p);
}

const Registration rung({.prev = "v1", .idea = "CTA tiles in shared memory"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
