// ex37: ldmatrix and mma.sync; where each 16 bytes of a row lie in shared memory is yours to say.
#include "device/epilogue.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mma.cuh"
#include "device/tile_copy.cuh"
#include "exercise.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 32;  // block tile: 4 warps with 16 rows each
constexpr int THREADS = 128, CHUNK = 8;   // halves in 16 bytes

// Where chunk `chunk` of row `row` lies in that row: A's rows have 4 chunks, B's have 8.
GEMM_DEVICE int place_a(int row, int chunk) { return chunk ^ row / 2 % 4; }
GEMM_DEVICE int place_b(int row, int chunk) { return chunk ^ row % 8; }

__global__ void __launch_bounds__(THREADS) gemm_ex37(GemmArgs<half> p) {
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, lane = tid % 32, m = tid / 32 * 16;

  alignas(128) __shared__ half sA[BM][BK], sB[BK][BN];

  float acc[BN / 8][4] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    for (int c = tid; c < BM * BK / CHUNK; c += THREADS) {
      const int row = c / (BK / CHUNK), chunk = c % (BK / CHUNK);
      store_vec(&sA[row][place_a(row, chunk) * CHUNK],
                load_group<false>(p.A, p.lda, bm * BM + row, k0 + chunk * CHUNK, p.M, p.K));
    }
    for (int c = tid; c < BK * BN / CHUNK; c += THREADS) {
      const int row = c / (BN / CHUNK), chunk = c % (BN / CHUNK);
      store_vec(&sB[row][place_b(row, chunk) * CHUNK],
                load_group<false>(p.B, p.ldb, k0 + row, bn * BN + chunk * CHUNK, p.K, p.N));
    }
    __syncthreads();
    for (int k = 0; k < BK; k += 16) {
      uint32_t a[4];
      const int row = m + lane % 16;
      ldmatrix_x4(a, &sA[row][place_a(row, k / CHUNK + lane / 16) * CHUNK]);
      for (int n = 0; n < BN; n += 16) {
        uint32_t r[4];
        const int row = k + lane % 16;
        ldmatrix_x4_trans(r, &sB[row][place_b(row, n / CHUNK + lane / 16) * CHUNK]);
        const uint32_t b[2][2] = {{r[0], r[1]}, {r[2], r[3]}};
        for (int i = 0; i < 2; ++i) mma_m16n8k16_f16(acc[n / 8 + i], a, b[i]);
      }
    }
    __syncthreads();
  }

  const int row = bm * BM + m + lane / 4, col = bn * BN + lane % 4 * 2;
  for (int n = 0; n < BN / 8; ++n)
    for (int e = 0; e < 4; ++e) store(p, row + e / 2 * 8, col + n * 8 + e % 2, acc[n][e]);
}

void launch(const GemmArgs<half>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  gemm::launch(gemm_ex37, grid, dim3(THREADS), {}, stream, p);
}

const Exercise exercise(launch);

}  // namespace
