// FP32 multiply-adds as fast as the issue slots allow: the main loop.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ffma_tile.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/cp_async.cuh"
#include "stream_k.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// One operand's k-tiles on their way to shared memory, (BK, SX): BX rows of op(A) or columns of
// op(B), by groups of 16 bytes. A thread copies within one row of the matrix, so that its addresses
// differ by constants. Rows are whole aligned groups; what lies outside becomes zero.
//   K_MAJOR (A as stored, B transposed)   the matrix's rows run along k: through registers, transposed
//   else    (A transposed, B as stored)   they run along m or n, as in shared memory: by cp.async
template <class Tile, int BX, int SX, bool K_MAJOR>
class OperandCopy {
  static constexpr int COPIES = BX * Tile::BK / 4 / Tile::THREADS;  // a thread
  static constexpr int COLS = (K_MAJOR ? Tile::BK : BX) / COPIES;   // that are copied at once
  static_assert(COPIES * COLS == (K_MAJOR ? Tile::BK : BX) && COLS >= 4);
  const int row_, col_;  // in the k-tile as stored
  const float* from_;
  const int64_t step_;  // to the next k-tile
  const int left_x_;    // rows or columns of the matrix from this thread's first on
  Vec<float> next_[K_MAJOR ? COPIES : 1];

 public:
  GEMM_DEVICE OperandCopy(const float* matrix, int64_t ld, int x, int size_x, int k)
      : row_(threadIdx.x / (COLS / 4)),
        col_(threadIdx.x % (COLS / 4) * 4),
        from_(K_MAJOR ? matrix + (x + row_) * ld + k + col_ : matrix + (k + row_) * ld + x + col_),
        step_(K_MAJOR ? Tile::BK : Tile::BK * ld),
        left_x_(size_x - x - (K_MAJOR ? row_ : col_)) {}
  // The next k-tile, of which `left` k are inside: all the way, or if K_MAJOR as far as registers.
  GEMM_DEVICE void fetch(float* to, int left) {
#pragma unroll
    for (int c = 0; c < COPIES; ++c)
      if constexpr (K_MAJOR) {
        next_[c] = {};
        if (left_x_ > 0 && col_ + c * COLS < left) next_[c] = load_vec(from_ + c * COLS);
      } else {
        cp_async_16(to + row_ * SX + col_ + c * COLS, from_ + c * COLS,
                    row_ < left && c * COLS < left_x_ ? 16 : 0);
      }
    from_ += step_;
  }
  // From registers to shared memory.
  GEMM_DEVICE void commit(float* to) const {
    if constexpr (K_MAJOR)
#pragma unroll
      for (int c = 0; c < COPIES; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e) to[(col_ + c * COLS + e) * SX + row_] = next_[c][e];
  }
};

// The products of k_begin <= k < k_end for block tile (bm, bn), shared out among the groups of
// warps, as sums at `to`, in shared memory or in global: see put_sums. Threads t, t + K_GROUP, ...
// have parts of the same elements. k_begin is a multiple of BK. Rows of A and B are whole aligned
// 16-byte groups.
template <class Tile, bool A_K_MAJOR, bool B_K_MAJOR, int COPY, int COMMIT>
GEMM_DEVICE void multiply(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                          Vec<float>* to) {
  constexpr int SA = Tile::SA, SB = B_K_MAJOR || !A_K_MAJOR ? Tile::SB : Tile::BN, KS = Tile::KS;
  constexpr int A_STAGE = Tile::BK * SA, STAGE = A_STAGE + Tile::BK * SB;
  constexpr int LAST = (Tile::STAGES - 1) * STAGE;
  const int tid = threadIdx.x;
  float* const s = static_cast<float*>(dynamic_shared());

  OperandCopy<Tile, Tile::BM, SA, A_K_MAJOR> copy_a(p.A, p.lda, bm * Tile::BM, p.M, k_begin);
  OperandCopy<Tile, Tile::BN, SB, B_K_MAJOR> copy_b(p.B, p.ldb, bn * Tile::BN, p.N, k_begin);
  int left = k_end - k_begin;
  const auto copy = [&](float* to) {  // by cp.async all the way, the others as far as registers
    if constexpr (!A_K_MAJOR) copy_a.fetch(to, left);
    if constexpr (!B_K_MAJOR) copy_b.fetch(to + A_STAGE, left);
    cp_async_commit();
    if constexpr (A_K_MAJOR) copy_a.fetch(to, left);
    if constexpr (B_K_MAJOR) copy_b.fetch(to + A_STAGE, left);
    left -= Tile::BK;
  };
  const auto commit = [&](float* to) {
    copy_a.commit(to);
    copy_b.commit(to + A_STAGE);
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
template <class Tile_, bool A_K_MAJOR, bool B_K_MAJOR, bool ALIGNED, int COPY, int COMMIT>
struct FfmaLoop {
  using Tile = Tile_;
  // Eight rows of tiles share what they read through L2.
  static GEMM_DEVICE TileIndex place(const GemmArgs<float>& p, int n) {
    return grouped_tile<8>(n, cdiv(p.M, Tile::BM), cdiv(p.N, Tile::BN));
  }
  static GEMM_DEVICE void sum(const GemmArgs<float>& p, int bm, int bn, int k_begin, int k_end,
                              Vec<float>* to) {
    multiply<Tile, A_K_MAJOR, B_K_MAJOR, COPY, COMMIT>(p, bm, bn, k_begin, k_end, to);
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
