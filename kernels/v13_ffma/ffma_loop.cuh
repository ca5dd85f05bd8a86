// FP32 multiply-adds as fast as the issue slots allow: the main loop.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ffma_tile.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/cp_async.cuh"
#include "stream_k.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// An operand's copies of k-tiles to shared memory, (BK, SX): BX rows of op(A) or columns of op(B),
// by groups of 16 bytes. A thread copies within one row of the matrix, so that its addresses differ by
// constants. Rows are whole aligned groups; what lies outside becomes zero.
//   K_MAJOR (A as stored): the rows run along k. Through registers, transposed.
//   Else (A transposed, B): they run along m or n, as in shared memory. By cp.async.
template <class Tile, int BX, int SX_, bool K_MAJOR_>
struct OperandCopy {
  static constexpr bool K_MAJOR = K_MAJOR_;
  static constexpr int SX = SX_, COPIES = BX * Tile::BK / 4 / Tile::THREADS;  // a thread
  static constexpr int COLS =
      (K_MAJOR ? Tile::BK : BX) / COPIES;  // that a row's threads copy at once
  static_assert(COPIES * COLS == (K_MAJOR ? Tile::BK : BX) && COLS >= 4);
  Vec<float> next[K_MAJOR ? COPIES : 1];  // on its way through registers

  // A thread's groups, from `from` on, at (row, col) of the k-tile as stored. `left` k and `left_x`
  // rows of op(A) or columns of op(B) are inside. fetch: not K_MAJOR, all the way; load and commit:
  // K_MAJOR, to registers and on.
  GEMM_DEVICE void fetch(float* to, const float* from, int row, int col, int left, int left_x) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c)
      cp_async_16(to + row * SX + col + c * COLS, from + c * COLS,
                  row < left && c * COLS < left_x ? 16 : 0);
  }
  GEMM_DEVICE void load(const float* from, int col, int left, bool inside) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c) {
      next[c] = {};
      if (inside && col + c * COLS < left) next[c] = load_vec(from + c * COLS);
    }
  }
  GEMM_DEVICE void commit(float* to, int row, int col) const {
#pragma unroll
    for (int c = 0; c < COPIES; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) to[(col + c * COLS + e) * SX + row] = next[c][e];
  }
};

// The products of k_begin <= k < k_end for CTA tile (bm, bn), shared out among the groups of
// warps, as sums at `to`, in shared memory or in global: see put_sums. Threads t, t + K_GROUP, ...
// have parts of the same elements. k_begin is a multiple of BK. Rows of A and B are whole aligned
// 16-byte groups.
template <class Tile, bool A_K_MAJOR, int COPY, int COMMIT>
GEMM_DEVICE void multiply(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                          Vec<float>* to) {
  constexpr int SA = Tile::SA, SB = A_K_MAJOR ? Tile::BN : Tile::SB, KS = Tile::KS;
  constexpr int A_STAGE = Tile::BK * SA, STAGE = A_STAGE + Tile::BK * SB;
  constexpr int LAST = (Tile::STAGES - 1) * STAGE;
  const int tid = threadIdx.x;
  float* const s = static_cast<float*>(dynamic_shared());

  using CopyA = OperandCopy<Tile, Tile::BM, SA, A_K_MAJOR>;
  using CopyB = OperandCopy<Tile, Tile::BN, SB, false>;
  const int rowA = tid / (CopyA::COLS / 4), colA = tid % (CopyA::COLS / 4) * 4;
  const int rowB = tid / (CopyB::COLS / 4), colB = tid % (CopyB::COLS / 4) * 4;
  const int m = bm * Tile::BM + (A_K_MAJOR ? rowA : colA), kA = A_K_MAJOR ? colA : rowA;
  const int n = bn * Tile::BN + colB;
  const float* gA = A_K_MAJOR ? p.A + m * p.lda + k_begin + kA : p.A + (k_begin + kA) * p.lda + m;
  const float* gB = p.B + (k_begin + rowB) * p.ldb + n;
  const bool inside_m = m < p.M;
  const int left_m = p.M - m, left_n = p.N - n;
  int left = k_end - k_begin;
  CopyA copy_a;
  CopyB copy_b;
  const auto copy = [&](float* to) {  // by cp.async all the way, the others as far as registers
    if constexpr (!A_K_MAJOR) copy_a.fetch(to, gA, rowA, colA, left, left_m);
    copy_b.fetch(to + A_STAGE, gB, rowB, colB, left, left_n);
    cp_async_commit();
    if constexpr (A_K_MAJOR) copy_a.load(gA, colA, left, inside_m);
    gA += A_K_MAJOR ? Tile::BK : Tile::BK * p.lda;
    gB += Tile::BK * p.ldb;
    left -= Tile::BK;
  };
  const auto commit = [&](float* to) {
    if constexpr (A_K_MAJOR) copy_a.commit(to, rowA, colA);
  };

  for (int i = 0; i < Tile::STAGES - 1; ++i) {
    copy(s + i * STAGE);
    commit(s + i * STAGE);
  }
  const int2 origin = thread_origin<Tile>(tid);
  const int steps = tid / Tile::K_GROUP * KS;  // of the groups before this one
  const int offset_a = origin.x + steps * SA, offset_b = A_STAGE + origin.y + steps * SB;
  float* write = s + LAST;
  const float* read = s;
  float acc[Tile::TM][Tile::TN] = {};
  float a[2][Tile::TM], b[2][Tile::TN];  // this K step's fragments and the next one's
  cp_async_wait<Tile::STAGES - 2>();
  __syncthreads();
  const float *sA = s + offset_a, *sB = s + offset_b;
  load_fragment(a[0], sA, Tile::LM * 4);
  load_fragment(b[0], sB, Tile::LN * 4);
  // [region main]
  for (int k0 = k_begin; k0 < k_end; k0 += Tile::BK) {
#pragma unroll
    for (int k = 0; k < KS; ++k) {
      if (k == KS * COPY / 16) copy(write);
      if (k == KS * COMMIT / 16) commit(write);
      if (k == KS - 1) {
        write = write == s + LAST ? s : write + STAGE;
        cp_async_wait<Tile::STAGES - 2>();
        __syncthreads();
        read = read == s + LAST ? s : read + STAGE;
        sA = read + offset_a - KS * SA;
        sB = read + offset_b - KS * SB;
      }
      load_fragment(a[(k + 1) % 2], sA + (k + 1) * SA, Tile::LM * 4);
      load_fragment(b[(k + 1) % 2], sB + (k + 1) * SB, Tile::LN * 4);
      if (k == KS - 1) {
        sA += KS * SA;
        sB += KS * SB;
      }
      multiply_step(acc, a[k % 2], b[k % 2]);
    }
  }
  // [/region main]
  cp_async_wait<0>();  // of copies past the end, before shared memory is used anew
  __syncthreads();
  put_sums<Tile::THREADS>(to + tid, acc);
}

// What stream_k.cuh wants of a rung.
template <class Tile_, bool A_K_MAJOR, int COPY, int COMMIT>
struct FfmaLoop {
  using Tile = Tile_;
  // Eight rows of tiles share what they read through L2.
  static GEMM_DEVICE TileIndex place(const GemmArgs<float>& p, int n) {
    return grouped_tile<8>(n, cdiv(p.M, Tile::BM), cdiv(p.N, Tile::BN));
  }
  static GEMM_DEVICE void sum(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                              Vec<float>* to) {
    multiply<Tile, A_K_MAJOR, COPY, COMMIT>(p, bm, bn, k_begin, k_end, to);
  }
  // The sums of this block, the rank-th of CLUSTER, to C: those of all groups and blocks, added up
  // in order of K. Each block stores its share of the tile.
  template <int CLUSTER>
  static GEMM_DEVICE void store(const GemmArgs<float>& p, bool aligned_c, int bm, int bn, int rank,
                                const Vec<float>* sums) {
    if constexpr (CLUSTER * Tile::K_GROUPS == 1)
      if (!aligned_c) return store_rows(p, bm, bn, sums);
    sync_cluster<CLUSTER>();
    const int group = threadIdx.x / Tile::K_GROUP, t = threadIdx.x % Tile::K_GROUP;
    const int2 at = thread_origin<Tile>(t);
    with_epilogue(p, [&](const auto& out) {
#pragma unroll 2
      for (int q = rank * Tile::K_GROUPS + group; q < Tile::SUMS / 2;
           q += CLUSTER * Tile::K_GROUPS) {
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
        for (int r = 0; r < 2; ++r) {
          const int m = bm * Tile::BM + at.x + tile_row<4, Tile::LM>(0, i + r);
          aligned_c ? store_group<true>(out, m, n, block.row[r])
                    : store_group<false>(out, m, n, block.row[r]);
        }
      }
    });
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
    with_epilogue(p, [&](const auto& out) {
#pragma unroll 1
      for (int i = 0; i < Tile::BM; i += STEP)
#pragma unroll
        for (int r = 0; r < STEP; r += ROWS)
          gemm::store(out, m + i + r, bn * Tile::BN + n,
                      s[sum_offset<Tile>(i, 0) + sum_offset<Tile>(r, 0)]);
    });
  }
};

GEMM_BUILD_NAMESPACE_END
