// v13s split K: small and narrow results, at any alignment, in one launch.
//
// before: v13's tiles are made for large results. 93 x 120 x 6295 is one tile of 128 x 256: one CTA
//         works for long, 131 SMs do nothing, and rows of 6295 floats are repacked first
// idea:   small tiles, and K cut until every SM has a share: among the groups of warps of a CTA,
//         among the CTAs of a cluster, who send each other their sums, and, where that is not
//         enough, among clusters, whose sums a second kernel adds up. Always in the same order
// watch:  operands come as they are: cp.async by 4 bytes takes any row and any transposition;
//         the short k-tile is the first, so that the loop asks for no bounds
// needs:  sm_80, clusters sm_90
#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ffma_tile.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/ptx/grid.cuh"
#include "device/scheduler.cuh"
#include "device/workspace.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int MAX_CLUSTER = 8;  // CTAs, what every GPU with clusters allows

// How K is cut: `parts` clusters of `ctas` CTAs compute a tile.
struct Split {
  int ctas, parts;
};

// One operand's k-tiles on their way to shared memory, (BK, SX): BX rows of op(A) or columns of
// op(B), BYTES at a time. A row or column past the edge is no matter: what comes of it is not
// stored. A k past the end becomes zero.
template <class Tile, int BX, int SX, int BYTES>
class MnMajorCopy {  // the matrix's rows run along m or n, as in shared memory
  static constexpr int VEC = BYTES / 4, LANES = BX / VEC < 32 ? BX / VEC : 32;  // along a row
  static constexpr int ROWS = Tile::THREADS / LANES, COLS = LANES * VEC;        // copied at once
  static_assert(Tile::BK % ROWS == 0 && BX % COLS == 0);
  const int k_, x_;  // this thread's first element in the k-tile
  const float* from_;
  const int64_t ld_;
  int bytes_[BX / COLS];  // inside the row

 public:
  GEMM_DEVICE MnMajorCopy(const float* matrix, int64_t ld, int x, int size_x, int k)
      : k_(threadIdx.x / LANES),
        x_(threadIdx.x % LANES * VEC),
        from_(matrix + (k + k_) * ld + x + x_),
        ld_(ld) {
#pragma unroll
    for (int c = 0; c < BX / COLS; ++c) {
      const int left = (size_x - x - x_ - c * COLS) * 4;
      bytes_[c] = left < 0 ? 0 : left < BYTES ? left : BYTES;
    }
  }
  // The next k-tile, all of it if WHOLE, else its first `rows` k.
  template <bool WHOLE>
  GEMM_DEVICE void fetch(float* to, int rows) {
#pragma unroll
    for (int r = 0; r < Tile::BK; r += ROWS)
#pragma unroll
      for (int c = 0; c < BX / COLS; ++c) {
        const int bytes = WHOLE || k_ + r < rows ? bytes_[c] : 0;
        float* const s = to + (k_ + r) * SX + x_ + c * COLS;
        const float* const g = from_ + r * ld_ + c * COLS;
        BYTES == 16 ? cp_async_16(s, g, bytes) : cp_async_4(s, g, bytes);
      }
    from_ += rows * ld_;
  }
};

template <class Tile, int BX, int SX>
class KMajorCopy {  // they run along k: a warp copies 4 rows of 8 k, 32 bytes each, to 32 banks
  static constexpr int WARPS = Tile::THREADS / 32, WARPS_X = BX / 4 < WARPS ? BX / 4 : WARPS;
  static constexpr int WARPS_K = WARPS / WARPS_X, ROWS = BX / 4 / WARPS_X;  // rows of a thread
  static_assert(Tile::BK % (8 * WARPS_K) == 0 && BX % (4 * WARPS_X) == 0 && SX % 32 % 8 == 4);
  const int k_, x_;
  const float* from_[ROWS];

 public:
  GEMM_DEVICE KMajorCopy(const float* matrix, int64_t ld, int x, int size_x, int k)
      : k_(threadIdx.x / 32 / WARPS_X * 8 + threadIdx.x % 8),
        x_(threadIdx.x / 32 % WARPS_X * 4 + threadIdx.x % 32 / 8) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int row = x + x_ + r * 4 * WARPS_X;
      from_[r] = matrix + (row < size_x ? row : size_x - 1) * ld + k + k_;
    }
  }
  template <bool WHOLE>
  GEMM_DEVICE void fetch(float* to, int rows) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int k = 0; k < Tile::BK; k += 8 * WARPS_K)
        cp_async_4(to + (k_ + k) * SX + x_ + r * 4 * WARPS_X, from_[r] + k,
                   WHOLE || k_ + k < rows ? 4 : 0);
      from_[r] += rows;
    }
  }
};

template <class Tile, int BX, int SX, bool K_MAJOR, int BYTES>
using OperandCopy =
    std::conditional_t<K_MAJOR, KMajorCopy<Tile, BX, SX>, MnMajorCopy<Tile, BX, SX, BYTES>>;

// The products of K's k-tiles `begin` to `end` for CTA tile (bm, bn), shared by the groups of warps:
// each thread's sums to shared memory, by put_sums. The first k-tile of all is the short one.
template <class Tile, bool A_K_MAJOR, bool B_K_MAJOR, int BYTES>
GEMM_DEVICE void multiply(const GemmArgs<float>& p, int bm, int bn, int begin, int end) {
  constexpr int SA = Tile::SA, SB = Tile::SB, KS = Tile::KS, A_STAGE = Tile::BK * SA;
  constexpr int STAGES = Tile::STAGES, LAST = (STAGES - 1) * Tile::STAGE;
  const int tid = threadIdx.x, k_tiles = end - begin;
  const int shorter = p.K - (cdiv(p.K, Tile::BK) - 1) * Tile::BK;  // k in the short one
  const int first = begin == 0 ? shorter : Tile::BK;
  const int k = begin == 0 ? 0 : shorter + (begin - 1) * Tile::BK;
  float* const s = static_cast<float*>(dynamic_shared());
  float acc[Tile::TM][Tile::TN] = {};
  if (k_tiles > 0) {
    OperandCopy<Tile, Tile::BM, SA, A_K_MAJOR, BYTES> copy_a(p.A, p.lda, bm * Tile::BM, p.M, k);
    OperandCopy<Tile, Tile::BN, SB, B_K_MAJOR, BYTES> copy_b(p.B, p.ldb, bn * Tile::BN, p.N, k);
    copy_a.template fetch<false>(s, first);
    copy_b.template fetch<false>(s + A_STAGE, first);
    cp_async_commit();
#pragma unroll
    for (int t = 1; t < STAGES - 1; ++t) {
      if (t < k_tiles) {
        copy_a.template fetch<true>(s + t * Tile::STAGE, Tile::BK);
        copy_b.template fetch<true>(s + t * Tile::STAGE + A_STAGE, Tile::BK);
      }
      cp_async_commit();
    }
    const int2 origin = thread_origin<Tile>(tid);
    const int steps = tid / Tile::K_GROUP * KS;  // of the groups before this one
    const int offset_a = origin.x + steps * SA, offset_b = A_STAGE + origin.y + steps * SB;
    float* write = s + LAST;
    const float* read = s;
    float a[2][Tile::TM], b[2][Tile::TN];  // this K step's fragments and the next one's
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    load_fragment(a[0], s + offset_a, Tile::LM * 4);
    load_fragment(b[0], s + offset_b, Tile::LN * 4);
    for (int left = k_tiles; left > 0; --left) {
      if (left > STAGES - 1) {
        copy_a.template fetch<true>(write, Tile::BK);
        copy_b.template fetch<true>(write + A_STAGE, Tile::BK);
      }
      cp_async_commit();
      const float *sA = read + offset_a, *sB = read + offset_b;
#pragma unroll
      for (int step = 0; step < KS; ++step) {
        if (step == KS - 1) {
          write = write == s + LAST ? s : write + Tile::STAGE;
          cp_async_wait<STAGES - 2>();
          __syncthreads();
          // Behind the last k-tile is none: its own first fragments again, which nobody uses.
          if (left > 1) read = read == s + LAST ? s : read + Tile::STAGE;
          sA = read + offset_a - KS * SA;
          sB = read + offset_b - KS * SB;
        }
        load_fragment(a[(step + 1) % 2], sA + (step + 1) * SA, Tile::LM * 4);
        load_fragment(b[(step + 1) % 2], sB + (step + 1) * SB, Tile::LN * 4);
        multiply_step(acc, a[step % 2], b[step % 2]);
      }
    }
    __syncthreads();  // all have read their k-tiles
  }
  put_sums<Tile::THREADS>(static_cast<Vec<float>*>(dynamic_shared()) + tid, acc);
}

// A tile's sums are UNITS blocks of 2 rows x 4 columns.
template <class Tile>
constexpr int UNITS = Tile::SUMS / 2 * Tile::K_GROUP;

// A unit's block to C.
template <class Tile>
GEMM_DEVICE void store_unit(const GemmArgs<float>& p, bool aligned, int bm, int bn, int unit,
                            const SumBlock& block) {
  const int q = unit / Tile::K_GROUP, i = q * 4 / Tile::TN * 2, j = q * 4 % Tile::TN;
  const int2 at = thread_origin<Tile>(unit % Tile::K_GROUP);
  const int n = bn * Tile::BN + at.y + tile_row<4, Tile::LN>(0, j);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int m = bm * Tile::BM + at.x + tile_row<4, Tile::LM>(0, i + r);
    aligned ? store_group<true>(p, m, n, block.row[r]) : store_group<false>(p, m, n, block.row[r]);
  }
}

template <class Tile>
constexpr size_t SMEM = Tile::SMEM + sizeof(float) * Tile::BM * Tile::BN;  // and what others send

template <class Tile, bool A_K_MAJOR, bool B_K_MAJOR, int BYTES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    gemm_v13s(GemmArgs<float> p, bool aligned_c, Split split, float* partial) {
  const int tid = threadIdx.x, ctas = split.ctas, rank = blockIdx.x % ctas;
  const int tiles_m = cdiv(p.M, Tile::BM), tiles_n = cdiv(p.N, Tile::BN);
  const int part = blockIdx.x / ctas % split.parts;
  const TileIndex at = grouped_tile<8>(blockIdx.x / ctas / split.parts, tiles_m, tiles_n);
  const int64_t k_tiles = cdiv(p.K, Tile::BK);
  const int nth = part * ctas + rank, pieces = ctas * split.parts;
  if (ctas > 1) cluster_arrive();
  grid_launch_dependents();
  grid_dependency_wait();
  multiply<Tile, A_K_MAJOR, B_K_MAJOR, BYTES>(p, at.m, at.n, int(k_tiles * nth / pieces),
                                              int(k_tiles * (nth + 1) / pieces));
  if (split.parts > 1) {  // not C yet, but this part's own matrix
    p.ldc = cdiv(p.N, 4) * 4;
    p.C = partial + part * (p.M * p.ldc);
    p.alpha = 1;
    p.beta = 0;
  }
  // [region idea]
  const auto* sums = static_cast<const Vec<float>*>(dynamic_shared());
  auto* received = static_cast<Vec<float>*>(dynamic_shared()) + Tile::SMEM / 16;
  const int share = UNITS<Tile> / ctas;  // units that each CTA of the cluster stores
  __syncthreads();
  if (ctas > 1) cluster_wait();  // the others have begun: their shared memory is there
  for (int unit = tid; unit < UNITS<Tile>; unit += Tile::THREADS) {
    SumBlock block;
#pragma unroll
    for (int g = 0; g < Tile::K_GROUPS; ++g)
      block.add(sums + unit / Tile::K_GROUP * 2 * Tile::THREADS + g * Tile::K_GROUP +
                    unit % Tile::K_GROUP,
                Tile::THREADS);
    if (ctas == 1) {
      store_unit<Tile>(p, aligned_c, at.m, at.n, unit, block);
    } else {  // to the CTA that stores it
      Vec<float>* const to = map_shared(received + rank * 2 * share + unit % share, unit / share);
      block.put(to, share);
    }
  }
  if (ctas == 1) return;
  cluster_arrive();
  cluster_wait();  // all sums have come
  for (int unit = tid; unit < share; unit += Tile::THREADS) {
    SumBlock block;
    for (int from = 0; from < ctas; ++from) block.add(received + from * 2 * share + unit, share);
    store_unit<Tile>(p, aligned_c, at.m, at.n, rank * share + unit, block);
  }
  // [/region idea]
}
