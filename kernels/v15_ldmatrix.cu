// v15 ldmatrix: four 8 x 8 matrices of fragments in one load, from tiles that are XOR-swizzled.
//
// before: v10 loads 24 words for 16 mma.sync, one wavefront each; its padding makes stores 2-way,
//         and B has to be packed into pairs of k by hand
// idea:   ldmatrix gives each lane its words of four 8 x 8 matrices at once, transposed if asked.
//         It reads 16-byte pieces of rows, and the tile's chunks change places by an XOR with the
//         row's number, so that the eight rows of a matrix lie in all 32 banks
// watch:  6 shared loads instead of 24 for 16 mma, still 24 wavefronts; no conflict in any store;
//         no packing: B stays as it is stored
// needs:  sm_80; a narrow kernel for unaligned rows
#include "device/epilogue.cuh"
#include "device/mma.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/swizzle.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, BK = 32;           // CTA tile
constexpr int WM = 64, WN = 32;                      // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;     // one mma.sync
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 2 x 4 warps
static_assert(BK % MMA_K == 0 && WN % (2 * MMA_N) == 0, "ldmatrix.x4 takes two columns of mma");

// [region idea]
// Element (row, col) of a tile kept as panels of up to 128 bytes a row, one below the other, in
// which the 16-byte chunk c of row r lies at chunk c ^ r (b128: of 8; b64: two rows share a line).
template <class T, int ROWS, int COLS>
GEMM_DEVICE T* swizzled(T (&tile)[ROWS][COLS], int row, int col) {
  constexpr int WIDTH = COLS * sizeof(T) < 128 ? COLS : 128 / sizeof(T);  // a panel's row
  constexpr auto MODE = static_cast<Swizzle>(WIDTH * sizeof(T));
  T* panel = &tile[0][0] + col / WIDTH * (ROWS * WIDTH);
  return panel + row * WIDTH + swizzled_column(MODE, row, col % WIDTH * sizeof(T)) / sizeof(T);
}

// A's fragment: rows row .. row + 15, k .. k + 15. Lanes 0-15 name its left half's rows, 16-31 its
// right half's: matrices 0 to 3 are a[0..3].
template <class T, int BM, int BK>
GEMM_DEVICE void load_a(uint32_t (&a)[4], T (&tile)[BM][BK], int row, int k) {
  const int lane = threadIdx.x % 32;
  ldmatrix_x4(a, swizzled(tile, row + lane % 16, k + lane / 16 * 8));
}

// B's fragments of two mma side by side: k .. k + 15, columns col .. col + 15. Rows of B run along
// N, a fragment's words along K: hence .trans.
template <class T, int BK, int BN>
GEMM_DEVICE void load_b(uint32_t (&b)[2][2], T (&tile)[BK][BN], int k, int col) {
  const int lane = threadIdx.x % 32;
  uint32_t r[4];
  ldmatrix_x4_trans(r, swizzled(tile, k + lane % 16, col + lane / 16 * 8));
  b[0][0] = r[0];
  b[0][1] = r[1];
  b[1][0] = r[2];
  b[1][1] = r[3];
}
// [/region idea]

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, ALIGNED ? 2 : 1)  // unaligned takes over 128 registers
    gemm_v15(GemmArgs<T> p) {
  constexpr int VEC = Vec<T>::SIZE;
  // Where am I? Lane = 4 * g + t in every accumulator.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(128) __shared__ T sA[2][BM][BK], sB[2][BK][BN];

  constexpr int COPIES = BM * BK / VEC / THREADS;  // vectors a thread, of A and of B
  Vec<T> nextA[COPIES], nextB[COPIES];             // the k-tile on its way
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      const int u = tid + c * THREADS;
      nextA[c] = load_group<ALIGNED>(gA + k0, p.lda, u / (BK / VEC), u % (BK / VEC) * VEC,
                                     p.M - bm * BM, p.K - k0);
      nextB[c] = load_group<ALIGNED>(gB + k0 * p.ldb, p.ldb, u / (BN / VEC), u % (BN / VEC) * VEC,
                                     p.K - k0, p.N - bn * BN);
    }
  };
  const auto commit = [&](int stage) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      const int u = tid + c * THREADS;
      store_vec(swizzled(sA[stage], u / (BK / VEC), u % (BK / VEC) * VEC), nextA[c]);
      store_vec(swizzled(sB[stage], u / (BN / VEC), u % (BN / VEC) * VEC), nextB[c]);
    }
  };

  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  for (int k0 = 0, stage = 0; k0 < p.K; k0 += BK, stage ^= 1) {
    const bool more = k0 + BK < p.K;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      uint32_t rA[WM / MMA_M][4], rB[2][2];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i) load_a(rA[i], sA[stage], wm + i * MMA_M, k);
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j) {
        if (j % 2 == 0) load_b(rB, sB[stage], k, wn + j * MMA_N);
#pragma unroll
        for (int i = 0; i < WM / MMA_M; ++i) mma<T>(acc[i][j], rA[i], rB[j % 2]);
      }
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
  }

  // Epilogue: lane (g, t) holds columns 2t and 2t + 1 of rows g and g + 8.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          store(out, bm * BM + wm + i * MMA_M + g + r / 2 * 8,
                bn * BN + wn + j * MMA_N + 2 * t + r % 2, acc[i][j][r]);
  });
}

template <class T>
void launch(const GemmArgs<T>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v15<T, true> : gemm_v15<T, false>;
  gemm::launch(kernel, grid, dim3(THREADS), {}, stream, p);
}

const Registration rung({.prev = "v10",
                         .idea = "ldmatrix from XOR-swizzled shared memory",
                         .needs = {.sm = 80}},
                        {f16(launch<half>)});

}  // namespace
