// FP32 multiply-adds as fast as the issue slots allow: the main loop.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/cp_async.cuh"
#include "stream_k.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A block tile of BM x BN x BK, TM x TN elements a thread, STAGES k-tiles in shared memory.
// K_GROUPS of warps share out the K steps of a k-tile; BLOCKS run on an SM at once.
// COPY and COMMIT say, in sixteenths of a k-tile, before which K step the next k-tile is asked for
// and stored. ptxas mixes both into the multiply-adds. Where they stand decides whether it keeps
// their order, and whether one of the six scoreboards serves a global load and a shared one alike,
// so that the next fragment waits for both: 44 to 53 TFLOPS for the same instructions.
template <int BM_, int BN_, int BK_, int TM_, int TN_, int STAGES_, int K_GROUPS_ = 1,
          int BLOCKS_ = 1, int COPY_ = 2, int COMMIT_ = 10, int LM_ = (TM_ < TN_) ? 8 : 4>
struct Tiling {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, STAGES = STAGES_;
  static constexpr int K_GROUPS = K_GROUPS_, K_GROUP = (BM / TM) * (BN / TN),
                       THREADS = K_GROUP * K_GROUPS;
  static constexpr int BLOCKS = BLOCKS_, COPY = COPY_, COMMIT = COMMIT_;
  static constexpr int LM = LM_, LN = 32 / LM;  // lanes of a warp along m, and along n
  static constexpr int SUMS = TM * TN / 4;      // vectors of sums a thread
  static constexpr int SA = BM + 4, STAGE = BK * (SA + BN), KS = BK / K_GROUPS;  // floats; K steps
  static constexpr size_t PIPELINE = sizeof(float) * STAGES * STAGE, ALL_SUMS = 16 * SUMS * THREADS;
  static constexpr size_t SMEM =
      PIPELINE > ALL_SUMS ? PIPELINE : ALL_SUMS;  // bytes: the k-tiles, later the sums
};

// This thread's first row and column in the block tile. Bit 0 of the lane belongs to n and bit 1 to
// m: then lanes l, l^1 read the same words of A and l, l^2 the same of B, which halves the phases.
template <class Tile>
GEMM_DEVICE int2 thread_origin(int tid) {
  constexpr int WM = Tile::LM * Tile::TM, WN = Tile::LN * Tile::TN;
  const int warp = tid % Tile::K_GROUP / 32, lane = tid % 32;
  const int m = Tile::LM == 8 ? (lane >> 1 & 1) | lane >> 3 << 1 : lane >> 1 & 3;
  const int n = Tile::LM == 8 ? (lane & 1) | (lane >> 2 & 1) << 1 : (lane & 1) | lane >> 3 << 1;
  return {warp / (Tile::BN / WN) * WM + m * 4, warp % (Tile::BN / WN) * WN + n * 4};
}

// Where put_sums leaves element (m, n) of the tile, in floats, less 1 (the odd row comes first).
// Each bit of m and of n adds its own.
template <class Tile>
GEMM_DEVICE constexpr int sum_offset(int m, int n) {
  constexpr int WM = Tile::LM * Tile::TM, WN = Tile::LN * Tile::TN;
  const int i = m % WM / (4 * Tile::LM) * 4 + m % 4, j = n % WN / (4 * Tile::LN) * 4 + n % 4;
  const int warp = m / WM * (Tile::BN / WN) + n / WN;
  const int down = m / 4 % Tile::LM, right = n / 4 % Tile::LN;  // threads
  const int lane = Tile::LM == 8 ? (right & 1) | (down & 1) << 1 | right >> 1 << 2 | down >> 1 << 3
                                 : (right & 1) | down << 1 | right >> 1 << 3;
  return ((i / 2 * (Tile::TN / 2) + j / 2) * Tile::THREADS + warp * 32 + lane) * 4 + j % 2 * 2 -
         i % 2;
}

// The products of k_begin <= k < k_end for block tile (bm, bn), shared out among the groups of
// warps, as sums at `to`, in shared memory or in global: see put_sums. Threads t, t + K_GROUP, ...
// have parts of the same elements. k_begin is a multiple of BK. Rows of A and B are whole aligned
// 16-byte groups.
template <class Tile, int COPY, int COMMIT>
GEMM_DEVICE void multiply(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                          Vec<float>* to) {
  constexpr int SA = Tile::SA, KS = Tile::KS, A_STAGE = Tile::BK * SA;
  constexpr int LAST = (Tile::STAGES - 1) * Tile::STAGE;
  const int tid = threadIdx.x;
  float* const s = static_cast<float*>(dynamic_shared());

  // A thread copies from one row of A and from one of B, so that its addresses differ by constants.
  constexpr int CA = Tile::BM * Tile::BK / 4 / Tile::THREADS,
                CB = Tile::BK * Tile::BN / 4 / Tile::THREADS;
  constexpr int COLS_A = Tile::BK / CA,
                COLS_B = Tile::BN / CB;  // that a row's threads copy at once
  static_assert(CA * COLS_A == Tile::BK && CB * COLS_B == Tile::BN && COLS_A >= 4 && COLS_B >= 4);
  const int cpA_m = tid / (COLS_A / 4), cpA_k = tid % (COLS_A / 4) * 4;
  const int cpB_k = tid / (COLS_B / 4), cpB_n = tid % (COLS_B / 4) * 4;
  const float* gA = p.A + (bm * Tile::BM + cpA_m) * p.lda + k_begin + cpA_k;
  const float* gB = p.B + (k_begin + cpB_k) * p.ldb + bn * Tile::BN + cpB_n;
  const bool inside_m = bm * Tile::BM + cpA_m < p.M;
  const int left_n = p.N - bn * Tile::BN - cpB_n;
  int left = k_end - k_begin;
  Vec<float> nextA[CA];
  const auto copy = [&](float* to) {  // B all the way, A as far as registers
#pragma unroll
    for (int c = 0; c < CB; ++c)
      cp_async_16(to + A_STAGE + cpB_k * Tile::BN + cpB_n + c * COLS_B, gB + c * COLS_B,
                  cpB_k < left && c * COLS_B < left_n ? 16 : 0);
    cp_async_commit();
#pragma unroll
    for (int c = 0; c < CA; ++c) {
      nextA[c] = {};
      if (inside_m && cpA_k + c * COLS_A < left) nextA[c] = load_vec(gA + c * COLS_A);
    }
    gA += Tile::BK;
    gB += Tile::BK * p.ldb;
    left -= Tile::BK;
  };
  const auto commit = [&](float* to) {
#pragma unroll
    for (int c = 0; c < CA; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) to[(cpA_k + c * COLS_A + e) * SA + cpA_m] = nextA[c][e];
  };

  for (int i = 0; i < Tile::STAGES - 1; ++i) {
    copy(s + i * Tile::STAGE);
    commit(s + i * Tile::STAGE);
  }
  const int2 origin = thread_origin<Tile>(tid);
  const int steps = tid / Tile::K_GROUP * KS;  // of the groups before this one
  const int offset_a = origin.x + steps * SA, offset_b = A_STAGE + origin.y + steps * Tile::BN;
  float* write = s + LAST;
  const float* read = s;
  float acc[Tile::TM][Tile::TN] = {};
  float a[2][Tile::TM], b[2][Tile::TN];  // this K step's fragments and the next one's
  cp_async_wait<Tile::STAGES - 2>();
  __syncthreads();
  const float *sA = s + offset_a, *sB = s + offset_b;
  load_fragment(a[0], sA, Tile::LM * 4);
  load_fragment(b[0], sB, Tile::LN * 4);
  for (int k0 = k_begin; k0 < k_end; k0 += Tile::BK) {
#pragma unroll
    for (int k = 0; k < KS; ++k) {
      if (k == KS * COPY / 16) copy(write);
      if (k == KS * COMMIT / 16) commit(write);
      if (k == KS - 1) {
        write = write == s + LAST ? s : write + Tile::STAGE;
        cp_async_wait<Tile::STAGES - 2>();
        __syncthreads();
        read = read == s + LAST ? s : read + Tile::STAGE;
        sA = read + offset_a - KS * SA;
        sB = read + offset_b - KS * Tile::BN;
      }
      load_fragment(a[(k + 1) % 2], sA + (k + 1) * SA, Tile::LM * 4);
      load_fragment(b[(k + 1) % 2], sB + (k + 1) * Tile::BN, Tile::LN * 4);
      if (k == KS - 1) {
        sA += KS * SA;
        sB += KS * Tile::BN;
      }
#pragma unroll
      for (int j = 0; j < Tile::TN; ++j)
#pragma unroll
        for (int x = 0; x < Tile::TM; ++x) {
          const int y = j % 2 ? Tile::TM - 1 - x : x;  // down and up again: b or a is reused
          const int i = y < Tile::TM / 2 ? 2 * y : 2 * (Tile::TM - 1 - y) + 1;  // 0 2 4 6 7 5 3 1
          acc[i][j] += a[k % 2][i] * b[k % 2][j];
        }
    }
  }
  cp_async_wait<0>();  // of copies past the end, before shared memory is used anew
  __syncthreads();
  put_sums<Tile::THREADS>(to + tid, acc);
}

// What stream_k.cuh wants of a rung.
template <class Tile_, bool ALIGNED, int COPY, int COMMIT>
struct FfmaLoop {
  using Tile = Tile_;
  // Eight rows of tiles share what they read through L2.
  static GEMM_DEVICE TileIndex place(const GemmArgs<float>& p, int n) {
    return grouped_tile<8>(n, cdiv(p.M, Tile::BM), cdiv(p.N, Tile::BN));
  }
  static GEMM_DEVICE void sum(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                              Vec<float>* to) {
    multiply<Tile, COPY, COMMIT>(p, bm, bn, k_begin, k_end, to);
  }
  // The sums of this block, the rank-th of CLUSTER, to C: those of all groups and blocks, added up
  // in order of K. Each block stores its share of the tile.
  template <int CLUSTER>
  static GEMM_DEVICE void store(const GemmArgs<float>& p, int bm, int bn, int rank,
                                const Vec<float>* sums) {
    if constexpr (!ALIGNED && CLUSTER * Tile::K_GROUPS == 1) return store_rows(p, bm, bn, sums);
    sync_cluster<CLUSTER>();
    const int group = threadIdx.x / Tile::K_GROUP, t = threadIdx.x % Tile::K_GROUP;
    const int2 at = thread_origin<Tile>(t);
#pragma unroll 2
    for (int q = rank * Tile::K_GROUPS + group; q < Tile::SUMS / 2; q += CLUSTER * Tile::K_GROUPS) {
      SumBlock block;  // rows i and i + 1, columns j to j + 3 of the thread's elements
#pragma unroll
      for (int r = 0; r < CLUSTER; ++r) {
        const Vec<float>* const from = CLUSTER > 1 ? map_shared(sums, r) : sums;
#pragma unroll
        for (int g = 0; g < Tile::K_GROUPS; ++g)
          block.add(from + 2 * q * Tile::THREADS + g * Tile::K_GROUP + t, Tile::THREADS);
      }
      const int i = q * 4 / Tile::TN * 2, j = q * 4 % Tile::TN;
      const int n = bn * Tile::BN + at.y + tile_row<4, Tile::LN>(0, j);
#pragma unroll
      for (int r = 0; r < 2; ++r)
        store_group<ALIGNED>(p, bm * Tile::BM + at.x + tile_row<4, Tile::LM>(0, i + r), n,
                             block.row[r]);
    }
    if constexpr (CLUSTER > 1) sync_cluster<CLUSTER>();  // nobody reads a block that ended
  }
  // Where rows of C begin anywhere: a warp stores 32 neighbours. Thread by thread as above, 4 bytes
  // each, every element is a request to a sector of its own, and a tile takes 20 us.
  static GEMM_DEVICE void store_rows(const GemmArgs<float>& p, int bm, int bn,
                                     const Vec<float>* sums) {
    static_assert(Tile::THREADS % Tile::BN == 0);
    constexpr int ROWS = Tile::THREADS / Tile::BN, STEP = 4 * Tile::LM;
    const int m = bm * Tile::BM + threadIdx.x / Tile::BN, n = threadIdx.x % Tile::BN;
    const float* const s = reinterpret_cast<const float*>(sums) + 1 +
                           sum_offset<Tile>(threadIdx.x / Tile::BN, 0) + sum_offset<Tile>(0, n);
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < Tile::BM; i += STEP)
#pragma unroll
      for (int r = 0; r < STEP; r += ROWS)
        gemm::store(p, m + i + r, bn * Tile::BN + n,
                    s[sum_offset<Tile>(i, 0) + sum_offset<Tile>(r, 0)]);
  }
};

GEMM_BUILD_NAMESPACE_END
