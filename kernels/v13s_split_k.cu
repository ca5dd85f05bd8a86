// v13s split K: small and narrow results, at any alignment, in one launch.
//
// before: v13's tiles are made for large results. 93 x 120 x 6295 is one tile of 128 x 256: one CTA
//         works for long, 131 SMs do nothing, and rows of 6295 floats are repacked first
// idea:   small tiles, and K split until every SM has a share: among the groups of warps of a CTA,
//         among the CTAs of a cluster, who send each other their sums, and, where that is not
//         enough, among clusters, whose sums a second kernel adds up. Always in the same order
// watch:  operands come as they are: cp.async by 4 bytes takes any row and any transposition;
//         the short k-tile is the first, so that the loop asks for no bounds
// needs:  sm_80, clusters sm_90
#include <string>

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/ffma_tile.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/cp_async.cuh"
#include "device/ptx/grid.cuh"
#include "device/scheduler.cuh"
#include "device/workspace.h"
#include "engine/problem_of.h"
#include "plan/ffma.h"
#include "rung.h"

namespace {
using namespace gemm;

// How K is split: `parts` clusters of `ctas` CTAs compute a tile.
struct Split {
  int ctas, parts;
};

// One operand's k-tiles on their way to shared memory, (BK, SX): BX rows of op(A) or columns of
// op(B). What is asked for outside of the matrix becomes zero.
//   K_MAJOR (A as stored, B transposed): its rows run along k. A warp copies 8 k of 4 rows,
//   4 bytes a lane: 4 sectors of 32 bytes, to 32 banks.
//   Else (A transposed, B as stored): they run along m or n, as in shared memory. BYTES a lane.
template <class Tile, int BX, int SX, bool K_MAJOR, int BYTES>
class OperandCopy {
  static constexpr int VEC = BYTES / 4, WARPS = Tile::THREADS / 32;
  // What the CTA copies at once, (AT_ONCE_K, AT_ONCE_X); a warp's part, (LANES_K, LANES_X * VEC).
  static constexpr int LANES_X = K_MAJOR ? 4 : std::min(BX / VEC, 32), LANES_K = 32 / LANES_X;
  static constexpr int WARPS_X = K_MAJOR ? std::min(BX / 4, WARPS) : 1, WARPS_K = WARPS / WARPS_X;
  static constexpr int AT_ONCE_X = WARPS_X * LANES_X * VEC, AT_ONCE_K = WARPS_K * LANES_K;
  static_assert(Tile::BK % AT_ONCE_K == 0 && BX % AT_ONCE_X == 0);
  static_assert(!K_MAJOR || (BYTES == 4 && SX % 32 % 8 == 4), "32 different banks");
  const int k_, left_x_;  // this thread's first k; rows or columns from its first on
  const int offset_;      // of its first element in the k-tile
  const float* from_;     // that element of the matrix
  const int64_t ld_;

  GEMM_DEVICE OperandCopy(const float* matrix, int64_t ld, int size_x, int x0, int k0, int x, int k)
      : k_(k),
        left_x_(size_x - x0 - x),
        offset_(k * SX + x),
        from_(K_MAJOR ? matrix + (x0 + x) * ld + k0 + k : matrix + (k0 + k) * ld + x0 + x),
        ld_(ld) {}

 public:
  GEMM_DEVICE OperandCopy(const float* matrix, int64_t ld, int size_x, int x0, int k0)
      : OperandCopy(
            matrix, ld, size_x, x0, k0,
            K_MAJOR ? threadIdx.x / 32 % WARPS_X * 4 + threadIdx.x % 32 / 8
                    : threadIdx.x % LANES_X * VEC,
            K_MAJOR ? threadIdx.x / 32 / WARPS_X * 8 + threadIdx.x % 8 : threadIdx.x / LANES_X) {}
  // The next k-tile, all of it if WHOLE, else its first `size_k` k.
  template <bool WHOLE>
  GEMM_DEVICE void fetch(float* to, int size_k) {
    constexpr int ROWS = K_MAJOR ? BX : Tile::BK, COLS = K_MAJOR ? Tile::BK : BX;
    constexpr int ROW_STEP = K_MAJOR ? AT_ONCE_X : AT_ONCE_K;
    constexpr int COL_STEP = K_MAJOR ? AT_ONCE_K : AT_ONCE_X;
    const float* row = from_;
#pragma unroll
    for (int r = 0; r < ROWS; r += ROW_STEP, row += ROW_STEP * ld_)
#pragma unroll
      for (int c = 0; c < COLS; c += COL_STEP) {
        const int x = K_MAJOR ? r : c, k = K_MAJOR ? c : r;
        const int bytes = x < left_x_ && (WHOLE || k_ + k < size_k) ? BYTES : 0;
        float* const s = to + offset_ + k * SX + x;
        BYTES == 16 ? cp_async_16(s, row + c, bytes) : cp_async_4(s, row + c, bytes);
      }
    from_ = K_MAJOR ? from_ + size_k : WHOLE ? row : from_ + size_k * ld_;
  }
};

// The products of k-tiles `begin` to `end` for CTA tile (bm, bn), shared by the groups of warps:
// each thread's sums to shared memory, by put_sums. The first k-tile of all is the short one.
template <class Tile, bool A_K_MAJOR, bool B_K_MAJOR, int BYTES>
GEMM_DEVICE void multiply(const GemmArgs<float>& p, int bm, int bn, int begin, int end) {
  constexpr int SA = Tile::SA, SB = Tile::SB, KS = Tile::KS, A_STAGE = Tile::BK * SA;
  constexpr int STAGES = Tile::STAGES, LAST = (STAGES - 1) * Tile::STAGE;
  const int tid = threadIdx.x, k_tiles = end - begin;
  const int shorter = p.K - (cdiv(p.K, Tile::BK) - 1) * Tile::BK;  // k in the short one
  const int first = k_tiles == 0 ? 0 : begin == 0 ? shorter : Tile::BK;
  const int k = begin == 0 ? 0 : shorter + (begin - 1) * Tile::BK;
  float* const s = static_cast<float*>(dynamic_shared());
  OperandCopy<Tile, Tile::BM, SA, A_K_MAJOR, A_K_MAJOR ? 4 : BYTES> copy_a(p.A, p.lda, p.M,
                                                                           bm * Tile::BM, k);
  OperandCopy<Tile, Tile::BN, SB, B_K_MAJOR, B_K_MAJOR ? 4 : BYTES> copy_b(p.B, p.ldb, p.N,
                                                                           bn * Tile::BN, k);
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
  float acc[Tile::TM][Tile::TN] = {};
  float a[2][Tile::TM], b[2][Tile::TN];  // this K step's fragments and the next one's
  cp_async_wait<STAGES - 2>();
  __syncthreads();
  load_fragment(a[0], s + offset_a, Tile::LM * 4);
  load_fragment(b[0], s + offset_b, Tile::LN * 4);
  for (int left = k_tiles; left > 0; --left) {
    const float *sA = read + offset_a, *sB = read + offset_b;
#pragma unroll
    for (int step = 0; step < KS; ++step) {
      if (step == KS * Tile::COPY / 16) {
        if (left > STAGES - 1) {
          copy_a.template fetch<true>(write, Tile::BK);
          copy_b.template fetch<true>(write + A_STAGE, Tile::BK);
        }
        cp_async_commit();
      }
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
  put_sums<Tile::THREADS>(static_cast<Vec<float>*>(dynamic_shared()) + tid, acc);
}

// Rows of a tile that each of `ctas` CTAs stores, an even number. The last may have fewer, or none.
template <class Tile>
GEMM_HOST_DEVICE constexpr int rows_of_cta(int ctas) {
  return (Tile::BM / 2 + ctas - 1) / ctas * 2;
}
template <class Tile>
constexpr int ROW = Tile::BN + 4;  // floats of a row of sums: with 4 more, fewer bank conflicts
// Rows of sums that a CTA receives from its cluster, at most.
template <class Tile>
constexpr int RECEIVED_ROWS = [] {
  int most = 0;
  for (int ctas = 1; ctas <= MAX_CLUSTER; ++ctas)
    most = std::max(most, ctas * rows_of_cta<Tile>(ctas));
  return most;
}();
template <class Tile>
constexpr size_t smem(bool clusters) {  // bytes
  return Tile::SMEM + sizeof(float) * (clusters ? RECEIVED_ROWS<Tile> : Tile::BM) * ROW<Tile>;
}

// Stores this CTA's rows of tile (bm, bn): `rows` of them, from `first` on. A result is the sum of
// the CTAs' parts, in order. A thread stores 4 columns at once if ALIGNED, else one, and neighbours
// in a warp store neighbours. It adds up several rows at once: each row waits for shared memory.
template <class Tile, bool ALIGNED>
GEMM_DEVICE void store_rows(const GemmArgs<float>& p, int bm, int bn, int first, int rows, int ctas,
                            const float* received) {
  constexpr int VEC = ALIGNED ? 4 : 1, AT_ONCE = ALIGNED ? 2 : 4;
  constexpr int COLS = Tile::BN / VEC, STEP = Tile::THREADS / COLS;
  const int n = threadIdx.x % COLS * VEC, at_m = bm * Tile::BM + first, at_n = bn * Tile::BN + n;
  if (at_n >= p.N) return;
  const int left = p.M - at_m < Tile::BM - first ? p.M - at_m : Tile::BM - first;
  const int end = rows < left ? rows : left;
  with_epilogue(p, [&](const auto& out) {
    store_down<VEC, AT_ONCE>(
        out, at_m, threadIdx.x / COLS, STEP, end, at_n, [&](int m, float* x, auto&& for_each_row) {
          for (int from = 0; from < ctas; ++from)
            for_each_row([&](int r) {
              add_elements<VEC>(x + r * VEC,
                                received + (from * rows + m + r * STEP) * ROW<Tile> + n);
            });
        });
  });
}

template <class Tile, bool A_K_MAJOR, bool B_K_MAJOR, int BYTES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
    gemm_v13s(GemmArgs<float> p, bool aligned_c, Split split, float* partial) {
  const unsigned ctas = split.ctas, splits = ctas * split.parts;
  const unsigned nth = blockIdx.x % splits, k_tiles = cdiv(p.K, Tile::BK);
  const int tid = threadIdx.x, rank = nth % ctas, part = nth / ctas;
  const TileIndex at =
      grouped_tile<8>(blockIdx.x / splits, cdiv(p.M, Tile::BM), cdiv(p.N, Tile::BN));
  if (ctas > 1) cluster_arrive();
  grid_launch_dependents();
  grid_dependency_wait();
  // At most 8 * 2^27 or 32 * 2^25, so 32 bits are enough: 64 would take hundreds of cycles.
  multiply<Tile, A_K_MAJOR, B_K_MAJOR, BYTES>(p, at.m, at.n, k_tiles * nth / splits,
                                              k_tiles * (nth + 1) / splits);
  // [region idea]
  if (split.parts > 1) {  // not C yet, but this part's own matrix
    p.ldc = cdiv(p.N, 4) * 4;
    p.C = partial + part * (p.M * p.ldc);
    p.epilogue = {};  // plain: the sum of the parts has the caller's
  }
  const auto* sums = static_cast<const Vec<float>*>(dynamic_shared());
  float* const received = static_cast<float*>(dynamic_shared()) + Tile::SMEM / 4;
  const int rows = rows_of_cta<Tile>(ctas);
  __syncthreads();
  if (ctas > 1) cluster_wait();  // the others have begun: their shared memory is there
  // Blocks of 2 rows x 4 columns, added up over the groups of warps.
  const int thread = tid % Tile::K_GROUP;
  const int2 origin = thread_origin<Tile>(thread);
  for (int q = tid / Tile::K_GROUP; q < Tile::SUMS / 2; q += Tile::K_GROUPS) {
    SumBlock block;
#pragma unroll
    for (int g = 0; g < Tile::K_GROUPS; ++g)
      block.add(sums + q * 2 * Tile::THREADS + g * Tile::K_GROUP + thread, Tile::THREADS);
    const int m = origin.x + tile_row<4, Tile::LM>(0, q * 4 / Tile::TN * 2);
    const int n = origin.y + tile_row<4, Tile::LN>(0, q * 4 % Tile::TN);
    if (ctas == 1 && aligned_c) {  // nothing to wait for
#pragma unroll
      for (int r = 0; r < 2; ++r)
        store_group<true>(p, at.m * Tile::BM + m + r, at.n * Tile::BN + n, block.row[r]);
      continue;
    }
    float* to = received + m * ROW<Tile> + n;
    if (ctas > 1)  // in the CTA that stores it
      to = map_shared(received + (rank * rows + m % rows) * ROW<Tile> + n, m / rows);
#pragma unroll
    for (int r = 0; r < 2; ++r) put_elements<4>(to + r * ROW<Tile>, block.row[r]);
  }
  if (ctas > 1) {
    cluster_arrive();
    cluster_wait();  // all sums have come
  } else {
    if (aligned_c) return;
    __syncthreads();
  }
  if (aligned_c)
    store_rows<Tile, true>(p, at.m, at.n, rank * rows, rows, ctas, received);
  else
    store_rows<Tile, false>(p, at.m, at.n, rank * rows, rows, ctas, received);
  // [/region idea]
}

// The parts' matrices, M x N one after the other, added up in order.
constexpr int SUM_THREADS = 256;
__global__ void __launch_bounds__(SUM_THREADS)
    gemm_v13s_sum(GemmArgs<float> p, bool aligned_c, int parts, const float* partial) {
  const int groups = cdiv(p.N, 4);  // of 4 columns, a row
  const int64_t at = int64_t{blockIdx.x} * SUM_THREADS + threadIdx.x;
  const int m = int(at / groups), n = int(at % groups) * 4;
  grid_launch_dependents();
  grid_dependency_wait();
  if (m >= p.M) return;
  const int64_t size = int64_t{p.M} * groups;  // vectors
  const Vec<float>* const from = reinterpret_cast<const Vec<float>*>(partial) + at;
  float sum[4] = {};
#pragma unroll 8
  for (int i = 0; i < parts; ++i) {
    const Vec<float> part = from[i * size];
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[e] += part[e];
  }
  aligned_c ? store_group<true>(p, m, n, sum) : store_group<false>(p, m, n, sum);
}

template <class F>
void with_layout(const GemmArgs<float>& p, F&& f) {
  with_constant(p.op_a == Op::N, [&](auto a_k_major) {
    with_constant(p.op_b == Op::N,
                  [&](auto b_mn_major) { f(a_k_major, std::bool_constant<!b_mn_major()>{}); });
  });
}

// Launches the kernel of a tile. K is split among the CTAs of a cluster, and beyond 8 splits among
// several clusters. Without clusters it is split among single CTAs, as on sm_120, whose CTAs have
// too little shared memory.
template <class Tile>
void launch(const GemmArgs<float>& call, const Plan& plan, Stream stream) {
  GemmArgs<float> p = call;
  const int splits = plan.kept<int>();
  static_assert(smem<Tile>(false) <= 99 * 1024, "what a CTA of an sm_86 has");
  const bool clusters = has_clusters() && smem<Tile>(true) <= shared_memory_limit();
  const int ctas = clusters ? std::min(splits, MAX_CLUSTER) : 1;
  const Split split{ctas, splits / ctas};
  const int64_t tiles = int64_t{cdiv(p.M, Tile::BM)} * cdiv(p.N, Tile::BN);
  const int groups = cdiv(p.N, 4);
  const bool aligned_c = has_aligned_c(p);
  const bool first_aligned = split.parts > 1 || aligned_c;
  const Workspace partial(
      split.parts > 1 ? size_t(split.parts) * p.M * groups * sizeof(Vec<float>) : 0, stream);
  if (p.K == 0) {  // no row is asked for
    p.A = p.B = nullptr;
    p.lda = p.ldb = 0;
  }
  with_layout(p, [&](auto a_k_major, auto b_k_major) {
    const auto start = [&](auto kernel) {
      gemm::launch(kernel, tiles * splits, dim3(Tile::THREADS),
                   {.smem = smem<Tile>(clusters), .cluster = ctas, .pdl = has_clusters()}, stream,
                   p, first_aligned, split, partial.as<float>());
    };
    // 16 bytes at a time of an operand that is not K-major, where its rows are whole groups of 16.
    if constexpr (!a_k_major() || !b_k_major())
      if (whole_groups(problem_of(FusedArgs<float>{p, {}})))
        return start(gemm_v13s<Tile, a_k_major(), b_k_major(), 16>);
    start(gemm_v13s<Tile, a_k_major(), b_k_major(), 4>);
  });
  if (split.parts > 1)
    gemm::launch(gemm_v13s_sum, (int64_t{p.M} * groups + SUM_THREADS - 1) / SUM_THREADS,
                 dim3(SUM_THREADS), {.pdl = has_clusters()}, stream, p, aligned_c, split.parts,
                 partial.as<float>());
}

using T16x64 = Tiling<16, 64, 64, 4, 8, 3, 8, 2, 4, 10, 4>;
using T64x16 = Tiling<64, 16, 64, 8, 4, 3, 8, 2, 4, 10, 8>;
using T32x32 = Tiling<32, 32, 64, 8, 4, 3, 8, 2, 0>;
using T32x64 = Tiling<32, 64, 64, 8, 4, 3, 4, 2, 0>;
using T64x64 = Tiling<64, 64, 32, 8, 8, 4, 4, 2, 8>;
using T64x128 = Tiling<64, 128, 16, 8, 8, 4, 2, 2, 4>;
using T128x64 = Tiling<128, 64, 16, 8, 8, 4, 2, 2, 8>;

#define SPLITS_TO_8(T, name)                                                                    \
  {name, launch<T>}, {name " split 2", launch<T>}, {name " split 3", launch<T>},                \
      {name " split 4", launch<T>}, {name " split 5", launch<T>}, {name " split 6", launch<T>}, \
      {name " split 7", launch<T>}, {                                                           \
    name " split 8", launch<T>                                                                  \
  }
#define SPLITS_TO_32(T, name)                                                           \
  SPLITS_TO_8(T, name), {name " split 16", launch<T>}, {name " split 24", launch<T>}, { \
    name " split 32", launch<T>                                                         \
  }
const Variant<float> VARIANTS[] = {
    SPLITS_TO_32(T16x64, "16x64"),  SPLITS_TO_32(T64x16, "64x16"), SPLITS_TO_32(T32x32, "32x32"),
    SPLITS_TO_8(T32x64, "32x64"),   SPLITS_TO_8(T64x64, "64x64"),  SPLITS_TO_8(T64x128, "64x128"),
    SPLITS_TO_8(T128x64, "128x64"),
};
static_assert(int{std::size(VARIANTS)} == split_variants(), "SPLIT_TILES, in the same order");

Plan plan(const FusedArgs<float>& p, const Arch& arch, int variant) {
  PlannedProblem problem = problem_of(p);
  // One tile and split, whatever the rows are, since both order the sums. A of a group may begin
  // anywhere.
  if (p.invariant) problem.M = 256, problem.a_aligned = false;
  const Estimate best = best_split_tile(problem, arch, variant);
  Plan plan{.variant = best.variant, .makespan = best.us};
  plan.keep(best.splits);
  return plan;
}

std::string explain(const GemmArgs<float>&, const Plan& plan) {
  return "estimated " + std::to_string(int64_t(plan.makespan + 0.5)) + " us on " +
         std::to_string(plan.sms) + " SMs";
}

const Registration rung(
    {.prev = "v13",
     .idea = "split K: small tiles, any row, K split until all SMs have a share",
     .needs = {.sm = 80, .transposed = true, .invariant = true}},
    {f32(VARIANTS, {plan, explain})});

}  // namespace
