// v8 double buffering: the next k-tile is fetched while this one is multiplied.
//
// before: v7 stops at two barriers per k-tile. Before the first of them it waits out the whole
//         latency of global memory.
// idea:   There are two buffers. The next k-tile travels from global memory to registers while this
//         one is multiplied. Afterwards the next k-tile is stored to the other buffer (`commit`).
// watch:  One barrier per k-tile is enough, since nobody writes the buffer that is being read.
//         The price is 8 registers per thread and twice the shared memory.
// needs:  Any GPU. A second kernel serves rows whose start or length is no multiple of 16 bytes.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128;               // block tile
constexpr int TM = 8, TN = 8;                   // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);  // 16 x 16
template <class T>
constexpr int BK = 32 / sizeof(T);  // depth of a k-tile: 32 bytes of each row of A, one sector
static_assert(BM == BN && BM * 32 == THREADS * 16,
              "each thread copies one vector of A and one of B");
static_assert(THREADS <= 1024, "a CTA has at most 1024 threads");

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v08(GemmArgs<T> p) {
  constexpr int VEC = Vec<T>::SIZE;
  // Where am I? The grid is one-dimensional, block tiles row by row.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ T sA[2][BK<T>][BM + VEC], sB[2][BK<T>][BN];

  // [region idea]
  const int cpA_m = tid / (BK<T> / VEC), cpA_k = tid % (BK<T> / VEC) * VEC;
  const int cpB_k = tid / (BN / VEC), cpB_n = tid % (BN / VEC) * VEC;
  Vec<T> nextA, nextB;  // the k-tile on its way
  const auto fetch = [&](int k0) {
    nextA = load_group<ALIGNED>(gA + k0, p.lda, cpA_m, cpA_k, p.M - bm * BM, p.K - k0);
    nextB = load_group<ALIGNED>(gB + k0 * p.ldb, p.ldb, cpB_k, cpB_n, p.K - k0, p.N - bn * BN);
  };
  const auto commit = [&](int stage) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) sA[stage][cpA_k + e][cpA_m] = nextA[e];
    store_vec(&sB[stage][cpB_k][cpB_n], nextB);
  };
  // [/region idea]

  float acc[TM][TN] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < p.K; k0 += BK<T>, stage ^= 1) {
    const bool more = k0 + BK<T> < p.K;
    if (more) fetch(k0 + BK<T>);
#pragma unroll
    for (int k = 0; k < BK<T>; ++k) {
      float rA[TM], rB[TN];
      load_fragment(rA, &sA[stage][k][tm * VEC], BM / TM * VEC);
      load_fragment(rB, &sB[stage][k][tn * VEC], BN / TN * VEC);
#pragma unroll
      for (int j = 0; j < TN; ++j)
#pragma unroll
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
  }

  // Epilogue.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; j += VEC)
        store_group<ALIGNED>(out, bm * BM + tile_row<VEC, BM / TM>(tm, i),
                             bn * BN + tile_row<VEC, BN / TN>(tn, j), &acc[i][j]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v08<T, true> : gemm_v08<T, false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Registration rung({.prev = "v7",
                         .idea = "double buffering: load the next k-tile while computing"},
                        {f32(launch<float>), f16(launch<half>)});

}  // namespace
