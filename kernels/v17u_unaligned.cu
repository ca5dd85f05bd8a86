// v17u unaligned rows: small tiles, read where they lie, and several k-tiles at a time.
//
// before: a row may begin at any address. Then cp.async cannot copy 16 bytes at once, and TMA
//         cannot address the matrix. Hopper's rungs first copy both operands to aligned rows:
//         one more kernel, which takes as long as a small product
// idea:   threads load two elements each, at any address. That is slow for each byte, but a small
//         product has few: it waits for memory's answers. So two or four groups of warps share a
//         tile, each with its own k-tiles on their way, and add up their sums at the end; where K
//         is deep and tiles are few, so do the CTAs of a cluster
// watch:  512 threads with 128 registers fill an SM: more groups are for few tiles only
// needs:  sm_80, clusters sm_90
#include <string>

#include "device/dynamic_shared.cuh"
#include "device/epilogue.cuh"
#include "device/fragments.cuh"
#include "device/mma.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/tma_operands.cuh"
#include "plan/tiles.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 64, BN = 64, BK = 64;                          // tile; depth of a k-tile
constexpr int WM = 32, WN = 32;                                   // warp tile
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;                  // one mma.sync
constexpr int WARPS = (BM / WM) * (BN / WN), GROUP = WARPS * 32;  // a group's warps; its threads
constexpr int GROUPS_OF_SM = 4;  // 16 warps with 128 registers a thread
constexpr int STRIDE = BN + 8;   // of a row of sums: a half-warp's pairs lie in 32 banks

// A group's operands, as they lie in memory: rows of M or N if K-major, else rows of k. Later its
// sums.
template <class T>
union Shared {
  struct {
    T A[BM][BK], B[BN][BK];
  };
  float sums[BM][STRIDE];
};
static_assert(BM == BK && BN == BK, "a tile has the same shape in both majors");

// A thread's words of a tile: of every fourth row, two elements. Zero outside the matrix.
struct Words {
  uint32_t word[BK / WARPS];
};

// Whether rows begin at multiples of 4 bytes.
template <class T>
__host__ __device__ bool whole_words(const T* at, int64_t ld) {
  return (reinterpret_cast<uintptr_t>(at) | static_cast<uint64_t>(ld) * sizeof(T)) % 4 == 0;
}

// [region idea]
// Loads a thread's part of the tile at g, of which `rows` x `cols` elements are left. Whole words
// where rows begin at multiples of 4 bytes, else each element by itself: 2 bytes at any address.
template <class T>
GEMM_DEVICE Words load_words(const T* g, int64_t ld, int rows, int cols, bool whole_words) {
  const int warp = threadIdx.x / 32 % WARPS, col = threadIdx.x % 32 * 2;
  const auto* const from = reinterpret_cast<const uint16_t*>(g + warp * ld + col);
  const int left = (rows - warp + WARPS - 1) / WARPS;  // of this warp's rows
  Words loaded;
  if (whole_words && col + 1 < cols) {
#pragma unroll
    for (int i = 0; i < BK / WARPS; ++i)
      loaded.word[i] = i < left ? *reinterpret_cast<const uint32_t*>(from + i * WARPS * ld) : 0;
  } else {
    const int left_0 = col < cols ? left : 0, left_1 = col + 1 < cols ? left : 0;
#pragma unroll
    for (int i = 0; i < BK / WARPS; ++i) {
      const uint32_t low = i < left_0 ? from[i * WARPS * ld] : 0;
      const uint32_t high = i < left_1 ? from[i * WARPS * ld + 1] : 0;
      loaded.word[i] = low | high << 16;
    }
  }
  return loaded;
}
// [/region idea]

// Stores a thread's words at their swizzled places in the tile.
template <class T, int ROWS, int COLS>
GEMM_DEVICE void store_words(T (&tile)[ROWS][COLS], const Words& words) {
  const int warp = threadIdx.x / 32 % WARPS, col = threadIdx.x % 32 * 2;
#pragma unroll
  for (int i = 0; i < BK / WARPS; ++i)
    *reinterpret_cast<uint32_t*>(swizzled(tile, i * WARPS + warp, col)) = words.word[i];
}

// A's fragment: 16 rows from m on, 16 of k.
template <Major MAJOR, class T, int ROWS, int COLS>
GEMM_DEVICE void load_fragment_a(uint32_t (&a)[4], T (&tile)[ROWS][COLS], int m, int k) {
  const int lane = threadIdx.x % 32;
  if constexpr (MAJOR == Major::K)
    load_a(a, tile, m, k);
  else  // rows of k: matrices 0 and 1 are k to k + 7, and 1 and 3 rows m + 8 to m + 15
    ldmatrix_x4_trans(a, swizzled(tile, k + lane / 16 * 8 + lane % 8, m + lane / 8 % 2 * 8));
}
// B's fragments of two mma side by side: 16 of k, 16 columns from n on.
template <Major MAJOR, class T, int ROWS, int COLS>
GEMM_DEVICE void load_fragment_b(uint32_t (&b)[2][2], T (&tile)[ROWS][COLS], int k, int n) {
  if constexpr (MAJOR == Major::MN) return load_b(b, tile, k, n);
  const int lane = threadIdx.x % 32;
  uint32_t r[4];
  ldmatrix_x4(r, swizzled(tile, n + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
  b[0][0] = r[0];
  b[0][1] = r[1];
  b[1][0] = r[2];
  b[1][1] = r[3];
}

// CLUSTER: 2^log_of_cluster CTAs share a tile. Else a CTA has its own, and the kernel is shorter.
template <class T, Major A_MAJOR, Major B_MAJOR, int GROUPS, bool CLUSTER>
__global__ void __launch_bounds__(GROUPS* GROUP, GROUPS_OF_SM / GROUPS)
    gemm_v17u(GemmArgs<T> p, int log_of_cluster) {
  const int log_ctas = CLUSTER ? log_of_cluster : 0;
  // Where am I? Lane = 4 * g + t in every accumulator.
  const unsigned tile = blockIdx.x >> log_ctas;
  const int cta = blockIdx.x - (tile << log_ctas);
  const int tiles_n = cdiv(p.N, BN), m = tile / tiles_n * BM, n = tile % tiles_n * BN;
  const int tid = threadIdx.x, group = tid / GROUP, warp = tid / 32 % WARPS;
  const int g = tid % 32 / 4, t = tid % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  auto* const shared = static_cast<Shared<T>*>(dynamic_shared());
  auto& s = shared[group];
  grid_launch_dependents();
  grid_dependency_wait();

  // A's and B's panels, and the words of the group's next k-tile.
  const T* gA = A_MAJOR == Major::K ? p.A + m * p.lda : p.A + m;
  const T* gB = B_MAJOR == Major::K ? p.B + n * p.ldb : p.B + n;
  const bool words_a = whole_words(p.A, p.lda), words_b = whole_words(p.B, p.ldb);
  Words a, b;
  const auto load = [&](int k) {
    if constexpr (A_MAJOR == Major::K)
      a = load_words(gA + k, p.lda, p.M - m, p.K - k, words_a);
    else
      a = load_words(gA + k * p.lda, p.lda, p.K - k, p.M - m, words_a);
    if constexpr (B_MAJOR == Major::K)
      b = load_words(gB + k, p.ldb, p.N - n, p.K - k, words_b);
    else
      b = load_words(gB + k * p.ldb, p.ldb, p.K - k, p.N - n, words_b);
  };
  float acc[WM / MMA_M][WN / MMA_N][4] = {};
  const int step = (GROUPS * BK) << log_ctas;  // of k, per iteration
  load((cta * GROUPS + group) * BK);
  for (int k0 = 0; k0 < p.K; k0 += step) {
    __syncthreads();  // the k-tiles before have been read
    store_words(s.A, a);
    store_words(s.B, b);
    __syncthreads();  // these are there
    // Past the end of K a group has zeros, and issues no loads.
    if (k0 + step < p.K) load(k0 + step + (cta * GROUPS + group) * BK);
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
      uint32_t rA[WM / MMA_M][4], rB[WN / MMA_N / 2][2][2];
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i) load_fragment_a<A_MAJOR>(rA[i], s.A, wm + i * MMA_M, k);
#pragma unroll
      for (int j = 0; j < WN / MMA_N / 2; ++j)
        load_fragment_b<B_MAJOR>(rB[j], s.B, k, wn + j * 2 * MMA_N);
#pragma unroll
      for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < WN / MMA_N; ++j) mma<T>(acc[i][j], rA[i], rB[j / 2][j % 2]);
    }
  }

  // Sums, by way of shared memory: a warp stores 32 neighbours of a row, wherever the row begins.
  __syncthreads();  // the last k-tiles have been read
#pragma unroll
  for (int i = 0; i < WM / MMA_M; ++i)
#pragma unroll
    for (int j = 0; j < WN / MMA_N; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        s.sums[wm + i * MMA_M + g + r / 2 * 8][wn + j * MMA_N + 2 * t + r % 2] = acc[i][j][r];
  __syncthreads();
  constexpr int STEP = GROUPS * GROUP / BN;                             // rows
  const int col = tid % BN, rows = BM >> log_ctas, first = cta * rows;  // that this CTA stores
  if constexpr (CLUSTER) {
    // First the sums of this CTA's groups, then, for its rows, those of all CTAs: in place.
#pragma unroll 4
    for (int row = tid / BN; row < BM; row += STEP) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < GROUPS; ++i) sum += shared[i].sums[row][col];
      shared->sums[row][col] = sum;
    }
    cluster_arrive();
    cluster_wait();
#pragma unroll 1
    for (int row = first + tid / BN; row < first + rows; row += STEP) {
      float sum = 0;
      for (int i = 0; i < 1 << log_ctas; ++i) sum += map_shared(shared, i)->sums[row][col];
      shared->sums[row][col] = sum;
    }
    cluster_arrive();
  }
  constexpr int SUMMANDS = CLUSTER ? 1 : GROUPS;
  const int left = p.M - m - first < rows ? p.M - m - first : rows;
  if (n + col < p.N)
    with_epilogue(p, [&](const auto& out) {
      store_down<1, 4>(out, m + first, tid / BN, STEP, left, n + col,
                       [&](int row, float* x, auto&& for_each_row) {
                         for_each_row([&](int r) {
#pragma unroll
                           for (int i = 0; i < SUMMANDS; ++i)
                             x[r] += shared[i].sums[first + row + r * STEP][col];
                         });
                       });
    });
  if constexpr (CLUSTER) {
    __syncwarp();
    cluster_wait();  // the others have read this CTA's sums
  }
}

// How a tile is shared: by the groups of warps of a CTA, and by 2^log_ctas CTAs of a cluster.
struct Sharing {
  int groups, log_ctas;
};
constexpr Sharing SHARINGS[] = {{1, 0}, {2, 0}, {4, 0}, {4, 1}, {4, 2}, {4, 3}};

template <class T, int I>
void launch(const GemmArgs<T>& p, const Plan&, Stream stream) {
  constexpr int GROUPS = SHARINGS[I].groups, LOG_CTAS = SHARINGS[I].log_ctas;
  const int64_t grid = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN) << LOG_CTAS;
  with_majors(p, [&](auto a, auto b) {
    gemm::launch(gemm_v17u<T, a(), b(), GROUPS, (LOG_CTAS > 0)>, grid, dim3(GROUPS * GROUP),
                 {.smem = GROUPS * sizeof(Shared<T>), .cluster = 1 << LOG_CTAS, .pdl = true},
                 stream, p, LOG_CTAS);
  });
}

template <class T>
bool fits_clusters(const GemmArgs<T>&) {
  return has_clusters();
}
template <class T, int I>
constexpr Variant<T> variant(const char* name) {
  Variant<T> v{name, launch<T, I>};
  if (SHARINGS[I].log_ctas > 0) v.fits = fits_clusters<T>;
  return v;
}
template <class T>
const Variant<T> VARIANTS[] = {
    variant<T, 0>("1 group"),          variant<T, 1>("2 groups"),
    variant<T, 2>("4 groups"),         variant<T, 3>("4 groups split 2"),
    variant<T, 4>("4 groups split 4"), variant<T, 5>("4 groups split 8")};

// SMs that clusters fill.
int sms(const Sharing& by, const Arch& arch) {
  return clusters_at_a_time(arch, 1 << by.log_ctas) << by.log_ctas;
}
double waves(int64_t tiles, const Sharing& by, const Arch& arch) {
  return std::ceil(double(tiles << by.log_ctas) * by.groups / (GROUPS_OF_SM * sms(by, arch)));
}

// Estimated microseconds. A group waits for each of its k-tiles, longer with more groups on the SM.
template <class T>
double estimate(const FusedArgs<T>& p, const Arch& arch, const Sharing& by) {
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  const double k_tiles = std::ceil(cdiv(p.K, BK) / double(by.groups << by.log_ctas));
  const double ctas = std::ceil(double(tiles << by.log_ctas) / sms(by, arch));  // per SM
  const double groups = std::min(ctas * by.groups, double(GROUPS_OF_SM));
  const int by_elements = !whole_words(p.A, p.lda) + !whole_words(p.B, p.ldb);
  const Costs::Unaligned& c = arch.costs->unaligned;
  const double k_tile = c.k_tile + groups * (c.group + c.by_elements * by_elements);
  return c.launch + waves(tiles, by, arch) * k_tiles * k_tile + c.results * 1e-6 * p.M * p.N +
         (by.log_ctas > 0 ? c.cluster : 0);
}

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  Plan best{.makespan = NEVER};
  for (int i = 0; i < int{std::size(SHARINGS)}; ++i) {
    const bool fits = SHARINGS[i].log_ctas == 0 || arch.clusters;
    if (variant == ANY_VARIANT ? !fits : variant != i) continue;
    const double us = estimate(p, arch, SHARINGS[i]);
    if (best.makespan != NEVER && us >= best.makespan) continue;
    best.variant = i;
    best.makespan = us;
  }
  const int64_t tiles = int64_t{cdiv(p.M, BM)} * cdiv(p.N, BN);
  best.keep(Tiling{
      .bm = BM, .bn = BN, .tiles = tiles, .waves = waves(tiles, SHARINGS[best.variant], arch)});
  return best;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  const Sharing& by = SHARINGS[plan.variant];
  std::string text = gemm::explain(plan.kept<Tiling>()) + ", " + std::to_string(by.groups) +
                     (by.groups == 1 ? " group" : " groups") + " of 4 warps";
  if (by.log_ctas > 0) text += " in each of a tile's " + std::to_string(1 << by.log_ctas) + " CTAs";
  return text;
}

const Registration rung({.prev = "v17",
                         .idea = "unaligned rows: small tiles, read where they lie",
                         .needs = {.sm = 80, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
