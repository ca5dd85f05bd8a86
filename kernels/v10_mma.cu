// v10 tensor cores: one mma.sync computes a 16 x 8 tile of C with a whole warp.
//
// before: v8 issues one instruction for 32 multiply-adds. f16 gains nothing, for every half is
//         first converted to float.
// idea:   mma.sync multiplies 16 x 8 x 16 halves (16 x 8 x 8 tf32) in one instruction. Its operands
//         are spread over the 32 lanes in 32-bit words. A word holds two halves of consecutive k,
//         or one tf32 value. With such words both types have one layout.
// watch:  Shared memory is the limit again: 24 word loads feed 16 mma. Row strides of 20 and 136
//         words keep fragment loads free of conflicts. B is packed in pairs of k when stored.
// needs:  It runs from sm_80 on. tf32 keeps 10 bits of mantissa: it is not single precision.
//         A narrow kernel serves unaligned rows.
#include "device/epilogue.cuh"
#include "device/ptx/mma.cuh"
#include "device/tile_copy.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BN = 128, WORDS = 16;        // CTA tile; a k-tile is 16 32-bit words deep
constexpr int WM = 64, WN = 32;                      // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_WORDS = 8;  // one mma.sync; 8 words = 16 halves or 8 tf32
constexpr int THREADS = (BM / WM) * (BN / WN) * 32;  // 2 x 4 warps
constexpr int SA = WORDS + 4, SB = BN + 8;  // row strides: g * SA + t, t * SB + g: 32 banks

// [region idea]
// A word holds two halves of consecutive k, or one tf32 value; and the instruction for such words.
template <class T>
GEMM_DEVICE uint32_t pack(T lower, T upper) {
  uint16_t bits[2];
  memcpy(&bits[0], &lower, 2);
  memcpy(&bits[1], &upper, 2);
  return bits[0] | uint32_t{bits[1]} << 16;
}
GEMM_DEVICE uint32_t pack(float x, float) { return cvt_rna_tf32(x); }

template <class T>
GEMM_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, half>) mma_m16n8k16_f16(d, a, b);
  if constexpr (std::is_same_v<T, float>) mma_m16n8k8_tf32(d, a, b);
}
// [/region idea]

template <class T, class TC, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_v10(GemmArgs<T, T, TC> p) {
  constexpr int VEC = Vec<T>::SIZE, PACK = 4 / sizeof(T), BK = WORDS * PACK;
  // Where am I? Lane = 4 * g + t in every fragment.
  const int tiles_n = cdiv(p.N, BN);
  const int bm = blockIdx.x / tiles_n, bn = blockIdx.x % tiles_n;
  const int tid = threadIdx.x, warp = tid / 32, g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;

  // Panels: the block's rows of A and columns of B.
  const T* gA = p.A + bm * BM * p.lda;
  const T* gB = p.B + bn * BN;
  alignas(16) __shared__ uint32_t sA[2][BM][SA], sB[2][WORDS][SB];

  constexpr int COPIES = BM * BK / VEC / THREADS;  // vectors of A per thread
  constexpr int PAIRS = COPIES / PACK;       // groups of PACK vectors of B, one under the other
  Vec<T> nextA[COPIES], nextB[PAIRS][PACK];  // the k-tile on its way
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      const int u = tid + c * THREADS, m = u / (BK / VEC), k = u % (BK / VEC) * VEC;
      nextA[c] = load_group<ALIGNED>(gA + k0, p.lda, m, k, p.M - bm * BM, p.K - k0);
    }
#pragma unroll
    for (int c = 0; c < PAIRS * PACK; ++c) {
      const int u = tid + c / PACK * THREADS, n = u % (BN / VEC) * VEC;
      const int k = u / (BN / VEC) * PACK + c % PACK;
      nextB[c / PACK][c % PACK] =
          load_group<ALIGNED>(gB + k0 * p.ldb, p.ldb, k, n, p.K - k0, p.N - bn * BN);
    }
  };
  const auto commit = [&](int stage) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      const int u = tid + c * THREADS;
      Vec<uint32_t> words = {};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        words.set(e, pack(nextA[c][e * PACK], nextA[c][e * PACK + PACK - 1]));
      store_vec(&sA[stage][u / 4][u % 4 * 4], words);
    }
#pragma unroll
    for (int c = 0; c < PAIRS; ++c) {
      const int u = tid + c * THREADS;
#pragma unroll
      for (int n = 0; n < VEC; n += 4) {
        Vec<uint32_t> words = {};
#pragma unroll
        for (int e = 0; e < 4; ++e)
          words.set(e, pack(nextB[c][0][n + e], nextB[c][PACK - 1][n + e]));
        store_vec(&sB[stage][u / (BN / VEC)][u % (BN / VEC) * VEC + n], words);
      }
    }
  };

  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  fetch(0);
  commit(0);
  __syncthreads();
  // [region loop]
  for (int k0 = 0, stage = 0; k0 < p.K; k0 += BK, stage ^= 1) {
    const bool more = k0 + BK < p.K;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < WORDS; k += MMA_WORDS) {
      uint32_t rA[WM / MMA_M][4], rB[WN / MMA_N][2];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r)
          rA[i][r] = sA[stage][wm + i * MMA_M + g + r % 2 * 8][k + t + r / 2 * 4];
#pragma unroll
      for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) rB[j][r] = sB[stage][k + t + r * 4][wn + j * MMA_N + g];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; ++j) mma<T>(acc[i][j], rA[i], rB[j]);
    }
    if (more) commit(stage ^ 1);
    __syncthreads();  // after it the next k-tile is there, and nobody reads this one any more
  }
  // [/region loop]

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

template <class T, class TC = T>
void launch(const GemmArgs<T, T, TC>& p, Stream stream) {
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  with_constant(all_aligned(p), [&](auto aligned) {
    gemm::launch(gemm_v10<T, TC, aligned()>, grid, dim3(THREADS), {}, stream, p);
  });
}

const Registration rung({.prev = "v8", .idea = "tensor cores: mma.sync", .needs = {.sm = 80}},
                        {f16(launch<half>), tf32(launch<float>),
                         entry(DType::f16_f32, launch<half, float>)});

}  // namespace
