// v14 3xTF32: 22 bits of FP32's 24 from tensor cores, by three products of high and low parts.
//
// before: v10 multiplies floats on tensor cores after rounding them to TF32's 11 significant bits;
//         FP32 kernels multiply on CUDA cores, at a fifth of the tensor cores' rate
// idea:   a = big + small, both TF32: 22 bits together. a * b = big * big + big * small + small *
//         big; the fourth product, below 2^-20 of a * b, is left out. Tensor cores cut off, towards
//         zero, what does not fit when they accumulate: so a k-tile's sum starts from zero, and is
//         added to the result by ordinary additions, which round to nearest
// watch:  error against double precision beside cuBLAS's; three mma a product: at best a third of
//         TF32's rate; 24 splits of two instructions for 48 mma
// needs:  sm_80; not counted as FP32 multiply-adds; a narrow kernel for unaligned rows
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/mma.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/tile_copy_async.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 128, BK = 32, STAGES = 3;  // CTA tile, k-tiles in the pipeline
constexpr int WM = 64, WN = 32;                        // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 8;        // one mma.sync
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;    // 4 warps in a row
constexpr int SA = BK + 4, SB = BN + 8;  // row strides: g * SA + t, t * SB + g: 32 banks

struct Stage {
  float A[BM][SA], B[BK][SB];
};

// [region idea]
// COUNT floats as two TF32 values each, cut off and not rounded: two instructions, where cvt.rna is
// seven and rounding by hand three. mma.sync ignores the lower 13 bits of its operands, and so two
// of the 13 that are left for `small`: it needs no cut of its own.
template <int COUNT>
struct Split {
  uint32_t big[COUNT], small[COUNT];
  GEMM_DEVICE void take(int i, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    big[i] = bits & ~0x1fffu;
    float cut;
    memcpy(&cut, &big[i], sizeof cut);
    const float rest = x - cut;  // exact
    memcpy(&small[i], &rest, sizeof rest);
  }
};

// d += a * b but for 2^-19 of it, the smallest products first.
GEMM_DEVICE void mma_3xtf32(float (&d)[4], const Split<4>& a, const Split<2>& b) {
  mma<float>(d, a.small, b.big);
  mma<float>(d, a.big, b.small);
  mma<float>(d, a.big, b.big);
}
// [/region idea]

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v14(GemmArgs<float> p) {
  // Where am I? Lane = 4 * g + t in every fragment.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  // Panels: the block's rows of A and columns of B.
  const float* gA = p.A + bm * BM * p.lda;
  const float* gB = p.B + bn * BN;
  auto* stages = static_cast<Stage*>(dynamic_shared());

  // The next k-tile's copies, one group; past the end of K zeros, so that every wait counts alike.
  int copied = 0;
  const auto copy_next = [&] {
    Stage& s = stages[copied % STAGES];
    const int left = p.K - copied * BK;
    copy_tile_async<ALIGNED, THREADS, BM, BK>(s.A, gA, p.lda, p.M - bm * BM, left, tid);
    copy_tile_async<ALIGNED, THREADS, BK, BN>(s.B, gB, p.ldb, left, p.N - bn * BN, tid);
    cp_async_commit();
    ++copied;
    gA += BK;
    gB += BK * p.ldb;
  };

  float acc[WM / MMA_M][WN / MMA_N][4] = {};
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy_next();
  for (int k_tile = 0; k_tile * BK < p.K; ++k_tile) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // after it this k-tile is there, and nobody reads the one before any more
    copy_next();
    const Stage& s = stages[k_tile % STAGES];
    float sum[WM / MMA_M][WN / MMA_N][4] = {};  // of this k-tile, on tensor cores
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      Split<4> rA[WM / MMA_M];
      Split<2> rB[WN / MMA_N];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          rA[i].take(r, s.A[wm + i * MMA_M + g + r % 2 * 8][k + t + r / 2 * 4]);
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) rB[j].take(r, s.B[k + t + r * 4][wn + j * MMA_N + g]);
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; ++j) mma_3xtf32(sum[i][j], rA[i], rB[j]);
    }
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) acc[i][j][r] += sum[i][j][r];
  }

  // Epilogue: lane (g, t) holds columns 2t and 2t + 1 of rows g and g + 8.
  with_epilogue(p, [&](const auto& out) {
#pragma unroll
    for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 4; r += 2)
          store_pair<ALIGNED>(out, bm * BM + wm + i * MMA_M + g + r * 4,
                              bn * BN + wn + j * MMA_N + 2 * t, acc[i][j][r], acc[i][j][r + 1]);
  });
}

void launch(const GemmArgs<float>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const auto kernel = all_aligned(p) ? gemm_v14<true> : gemm_v14<false>;
  gemm::launch(kernel, grid, dim3(THREADS), {.smem = STAGES * sizeof(Stage)}, stream, p);
}

const Registration rung({.prev = "v10",
                         .idea = "3xTF32: nearly FP32 from tensor cores, three products",
                         .needs = {.sm = 80},
                         .product_error = 0x1p-19,
                         .narrow_range = true},
                        {f32(launch)});

}  // namespace
