// ex12: v7 for a C of 64 rows, with tile sizes to choose: BM, BN, BK, TM and TN.
#include "device/epilogue.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 32, BN = 32, BK = 8;  // block tile
constexpr int TM = 4, TN = 4;            // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);
static_assert(THREADS <= 1024, "a block has at most 1024 threads");
static_assert((BM + 4 + BN) * BK * 4 <= 48 * 1024, "a block has 48 KB of shared memory unasked");
static_assert(TM % 4 == 0 && TN % 4 == 0, "fragments are loaded by 128 bits");
static_assert(BM * BK / 4 % THREADS == 0 && BK * BN / 4 % THREADS == 0,
              "every thread copies the same number of 16-byte groups");

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) gemm_ex12(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  alignas(16) __shared__ float sA[BK][BM + 4], sB[BK][BN];

  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    copy_tile_transposed<ALIGNED, THREADS, BM, BK>(sA, gA + k0, p.lda, p.M - bm * BM, p.K - k0,
                                                   tid);
    copy_tile_by_groups<ALIGNED, THREADS>(sB, gB + k0 * p.ldb, p.ldb, p.K - k0, p.N - bn * BN, tid);
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
      float rA[TM], rB[TN];
      load_fragment(rA, &sA[k][tm * 4], BM / TM * 4);
      load_fragment(rB, &sB[k][tn * 4], BN / TN * 4);
      for (int j = 0; j < TN; ++j)
        for (int i = 0; i < TM; ++i) acc[i][j] += rA[i] * rB[j];
    }
    __syncthreads();
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; j += 4)
      store_group<ALIGNED>(p, bm * BM + tile_row<4, BM / TM>(tm, i),
                           bn * BN + tile_row<4, BN / TN>(tn, j), &acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_ex12<true> : gemm_ex12<false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
