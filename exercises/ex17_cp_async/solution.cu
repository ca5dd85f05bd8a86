// ex17: three buffers filled by cp.async, two k-tiles ahead of the multiplication.
#include "device/epilogue.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 8, STAGES = 3;  // block tile, and how many k-tiles are held
constexpr int TM = 4, TN = 4;                        // thread tile
constexpr int THREADS = (BM / TM) * (BN / TN);       // 16 x 16
static_assert((BM * BK + BK * BN) / 4 == THREADS, "every thread copies one group of 16 bytes");

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) gemm_ex17(GemmArgs<float> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tm = threadIdx.y, tn = threadIdx.x;
  const int tid = tm * (BN / TN) + tn;

  alignas(16) __shared__ float sA[STAGES][BM][BK], sB[STAGES][BK][BN];

  // Half of the threads copy A, the others B. Rows that are not whole groups go through registers.
  const auto copy = [&](int k_tile) {
    const int stage = k_tile % STAGES, k0 = k_tile * BK, c = tid % (THREADS / 2);
    const bool is_a = tid < THREADS / 2;
    const int row = is_a ? bm * BM + c / (BK / 4) : k0 + c / (BN / 4);
    const int col = is_a ? k0 + c % (BK / 4) * 4 : bn * BN + c % (BN / 4) * 4;
    float* s = is_a ? &sA[stage][c / (BK / 4)][c % (BK / 4) * 4]
                    : &sB[stage][c / (BN / 4)][c % (BN / 4) * 4];
    const float* g = is_a ? p.A : p.B;
    const int64_t ld = is_a ? p.lda : p.ldb;
    const int rows = is_a ? p.M : p.K, cols = is_a ? p.K : p.N;
    if constexpr (ALIGNED) {
      const bool inside = row < rows && col < cols;
      cp_async_16(s, inside ? g + row * ld + col : g, inside ? 16 : 0);
    } else {
      store_vec(s, load_group<false>(g, ld, row, col, rows, cols));
    }
  };

  float acc[TM][TN] = {};
  const int k_tiles = cdiv(p.K, BK);
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < k_tiles) copy(s);
    cp_async_commit();
  }
  for (int s = 0; s < k_tiles; ++s) {
    cp_async_wait<STAGES - 2>();  // all groups but the youngest: k-tile s is there
    __syncthreads();              // for everyone, and k-tile s - 1 has been read
    if (s + STAGES - 1 < k_tiles) copy(s + STAGES - 1);
    cp_async_commit();  // an empty group as well, so that waiting counts k-tiles to the end
    for (int k = 0; k < BK; ++k)
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j)
          acc[i][j] += sA[s % STAGES][tm * TM + i][k] * sB[s % STAGES][k][tn * TN + j];
  }

  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) store(p, bm * BM + tm * TM + i, bn * BN + tn * TN + j, acc[i][j]);
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_ex17<true> : gemm_ex17<false>;
  gemm::launch(kernel, grid, dim3(BN / TN, BM / TM), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
