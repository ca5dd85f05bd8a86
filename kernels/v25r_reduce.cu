// v25r reduction: K in as many parts as there are SMs, and a second kernel adds them up.
//
// before: v25's parts of K are the CTAs of a cluster: eight of them, all within one GPC. 256 x 512
//         results are 8 tiles of 128 x 128, and eight parts of each are 64 CTAs: half of the SMs
//         fetch nothing. In 16 smaller tiles they are 16 clusters, of which an H200 holds 15
// idea:   CTAs that share a tile need not be neighbours if they leave their sums in memory. Each
//         stores its own, and a second kernel adds them up, on all SMs. So a tile has as many parts
//         as fill the GPU. And neighbours may be CTAs that share operands: clusters have one part
//         of K, and tiles side by side. 8 tiles in 15 parts are 15 clusters of eight, 120 CTAs
// watch:  the sums' way: 4 bytes a result and part, written and read. 15 parts of 256 x 512 are
//         8 MB, which stay in L2. And the second kernel's start: it is there before the first one
//         ends, by programmatic dependent launch
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
//
//   kernel     role        threads   waits for          then                         and tells
//   multiply   producer    one       empty[stage]       loads a k-tile of its part   full[stage]
//              consumers   2 x 128   full[stage]        4 wgmma                      empty[stage],
//                                                                                    a k-tile later
//                          2 x 128   their last k-tile  store their sums             by ending
//   reduce     all         4 x 128   the first kernel   add up parts of 64 x 8 results
//              one group   128       the other three    stores them
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of each consumer that reads it: 2, or 1 where they share K
//
//   multiply   CTA 0    | tile 0, first part of K ... | store sums |
//              CTA 1    | tile 1, first part ........ | store sums |
//   reduce     CTA 0..  | started, waits                           | add all parts, store C |

#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/scheduler.cuh"
#include "device/unit_rows.cuh"
#include "device/vec.cuh"
#include "device/wgmma_costs.h"
#include "device/wgmma_epilogue.cuh"
#include "device/workspace.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int MMA_X = 64, BK = 64;  // rows of one wgmma; depth of a k-tile
constexpr int FETCH = 128;          // bytes from memory at once: the next 128 may be another CTA's
constexpr int CONSUMERS = 2, WORKERS = CONSUMERS * 128;  // warpgroups, their threads
constexpr int THREADS = WORKERS + 32;                    // and the producer's warp

// How C, or C^T where C is flat, is cut into tiles, and K into parts.
struct Cut {
  int bx, by;            // a tile's extent along the long side, and the short one
  int tiles_x, tiles_y;  // tiles along them
  int group;             // tiles along the short side that have neighbouring numbers
  int parts;             // parts of K whose sums are stored

  __host__ __device__ TileIndex tile(int nth) const {  // m: along the short side
    return grouped_tile(nth, tiles_y, tiles_x, group);
  }
};

template <class TileX, class TileY, int STAGES>
struct Shared {
  uint8_t x[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
  uint8_t y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BK, BY)
  uint64_t full[STAGES], empty[STAGES];
};

// `sums`: (tiles, parts of K, units of 64 x 8, 128 threads), four each.
template <class T, Major X_MAJOR, Major Y_MAJOR, int BX, int BY, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v25r(Cut cut, int K, Vec<float>* sums, const __grid_constant__ TensorMap map_x,
              const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  constexpr int K_GROUPS = CONSUMERS * MMA_X / BX;  // intra-CTA split-K, see the consumers
  constexpr int UNITS = BX / MMA_X * BY / 8;
  static_assert(STAGES % K_GROUPS == 0, "a stage's phases are all waited for by one consumer");
  const int tid = threadIdx.x;
  // A cluster's CTAs have one part of K and neighbouring tiles: on one GPC, at about one k-tile.
  const int tiles = cut.tiles_x * cut.tiles_y, splits = gridDim.x / tiles;
  const int tile = blockIdx.x % tiles, rank = blockIdx.x / tiles;
  const auto [y, x] = cut.tile(tile);
  const int x0 = x * BX, y0 = y * BY;
  const int64_t k_tiles = cdiv(K, BK);
  const int begin = int(k_tiles * rank / splits), end = int(k_tiles * (rank + 1) / splits);

  auto& s = *static_cast<Shared<TileX, TileY, STAGES>*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS / K_GROUPS);
  __syncthreads();
  grid_launch_dependents();
  grid_dependency_wait();

  PipelineState<STAGES> state;
  if (tid >= WORKERS) {
    // The producer.
    if (elect_one())
      produce<TileX, TileY>(s.x[0], s.y[0], s.full, s.empty, state, map_x, map_y, x0, y0, begin,
                            end);
    return;
  }

  // A consumer: every k-tile; every other where a tile has 64 rows.
  const int wg = warpgroup(), k_group = wg % K_GROUPS, row_block = wg / K_GROUPS;
  float acc[BY / 2] = {};
  int last = 0;
  state.skip(k_group);
  for (int k_tile = begin + k_group; k_tile < end; k_tile += K_GROUPS, state.skip(K_GROUPS)) {
    const int stage = state.stage;
    mbarrier_wait(&s.full[stage], state.phase);
    multiply_k_tile<TileX, TileY>(acc, s.x[stage], s.y[stage], row_block * MMA_X);
    wgmma_wait<1>();
    if (tid % 128 == 0 && k_tile >= begin + K_GROUPS) mbarrier_arrive(&s.empty[last]);
    last = stage;
  }
  wgmma_wait<0>(acc);

  // [region idea]
  const int64_t part = int64_t{tile} * cut.parts + rank * K_GROUPS + k_group;
  Vec<float>* const to = sums + (part * UNITS + row_block * (BY / 8)) * 128 + tid % 128;
#pragma unroll
  for (int i = 0; i < BY / 8; ++i) {
    Vec<float> four = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) four.set(e, acc[i * 4 + e]);
    to[i * 128] = four;
  }
  // [/region idea]
}

// Adds up one unit of C, 64 x 8 results, and stores it: a unit a CTA. Each of four groups of 128
// threads takes every fourth part, four loads at once.
constexpr int ADDERS = 4, AT_ONCE = 4;
template <class T>
__global__ void __launch_bounds__(ADDERS * 128)
    gemm_v25r_reduce(GemmArgs<T> p, bool swapped, bool aligned_c, Cut cut, const Vec<float>* sums) {
  __shared__ Vec<float> added[ADDERS][128];
  __shared__ float row[UNIT_ROOM];
  grid_launch_dependents();
  const int tid = threadIdx.x, group = tid / 128;
  const int columns = cut.by / 8, units = cut.bx / MMA_X * columns;
  const int tile = blockIdx.x / units, unit = blockIdx.x % units;
  grid_dependency_wait(tile, unit);

  // [region reduce]
  const Vec<float>* const from =
      sums + (int64_t{tile} * cut.parts * units + unit) * 128 + tid % 128;
  const int64_t step = int64_t{units} * 128;
  float of_group[4] = {};
  for (int first = group; first < cut.parts; first += ADDERS * AT_ONCE) {
    // Beyond the last part it is loaded again: a load on a condition would wait for others.
    Vec<float> fours[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int part = first + i * ADDERS;
      fours[i] = from[(part < cut.parts ? part : cut.parts - 1) * step];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) of_group[e] += first + i * ADDERS < cut.parts ? fours[i][e] : 0;
  }
  // [/region reduce]
  Vec<float> four = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) four.set(e, of_group[e]);
  added[group][tid % 128] = four;
  __syncthreads();
  if (group > 0) return;
  float all[4] = {};
#pragma unroll
  for (int i = 0; i < ADDERS * 4; ++i) all[i % 4] += added[i / 4][tid][i % 4];
  put_unit(row, 0, swapped, all);
  named_barrier_sync(1, 128);
  store_units(p, row, 1, swapped, aligned_c, tid, 128, [&](int, int& x, int& y) {
    const TileIndex at = cut.tile(tile);
    x = at.n * cut.bx + unit / columns * MMA_X;
    y = at.m * cut.by + unit % columns * 8;
  });
}

// What the plan decides.
struct Split {
  int parts;    // CTAs that share a tile, and its K
  int cluster;  // CTAs of neighbouring tiles on one GPC
};
constexpr int GROUP = 4;  // tiles of a cluster along the short side, where there are so many

template <class T, int BX, int BY, int STAGES>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  const bool swapped = p.M <= p.N;
  const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
  constexpr int K_GROUPS = CONSUMERS * MMA_X / BX, UNITS = BX / MMA_X * BY / 8;
  const Split split = plan.kept<Split>();
  const int tiles_y = cdiv(Y, BY);
  const Cut cut{BX,
                BY,
                cdiv(X, BX),
                tiles_y,
                raster_group_size(std::max(tiles_y, 1), GROUP),
                split.parts * K_GROUPS};
  const int64_t tiles = int64_t{cut.tiles_x} * cut.tiles_y;
  const TmaOperands<T> in(p, stream);
  const Repacked<T>&x = swapped ? in.B : in.A, &y = swapped ? in.A : in.B;
  const Workspace sums(tiles * cut.parts * UNITS * 128 * sizeof(Vec<float>), stream);
  const auto start = [&](auto x_major, auto y_major) {
    using TileX = OperandTile<T, BX, x_major()>;
    using TileY = OperandTile<T, BY, y_major()>;
    gemm::launch(
        gemm_v25r<T, x_major(), y_major(), BX, BY, STAGES>, tiles * split.parts, dim3(THREADS),
        {.smem = sizeof(Shared<TileX, TileY, STAGES>), .cluster = split.cluster, .pdl = true},
        stream, cut, p.K, sums.as<Vec<float>>(), TileX::map(x.data, X, p.K, x.ld, FETCH),
        TileY::map(y.data, Y, p.K, y.ld, FETCH));
  };
  // B is K-major where it is transposed, A where it is not.
  with_majors(p, [&](auto a, auto b) { swapped ? start(b, a) : start(a, b); });
  gemm::launch(gemm_v25r_reduce<T>, tiles * UNITS, dim3(ADDERS * 128), {.pdl = true}, stream, p,
               swapped, has_aligned_c(p), cut, sums.as<Vec<float>>());
}

template <class T>
const Variant<T> VARIANTS[] = {
    {"64x64", launch<T, 64, 64, 12>},
    {"128x64", launch<T, 128, 64, 8>},
    {"128x128", launch<T, 128, 128, 6>},
    {"128x256", launch<T, 128, 256, 4>},
};
struct {
  int bx, by;
} constexpr TILES[] = {{64, 64}, {128, 64}, {128, 128}, {128, 256}};

static_assert(std::size(VARIANTS<half>) == std::size(TILES), "in the same order");

template <class T>
double estimate(const FusedArgs<T>& p, const Arch& arch, int bx, int by, Split split) {
  WgmmaCosts c = arch.costs->wgmma;
  const WgmmaCosts::Reduce& reduce = c.reduce;
  c.tensor *= reduce.tensor, c.l2 *= reduce.l2, c.fetch *= reduce.fetch;
  const double tiles = flat_tiles(p, bx, by), ctas = tiles * split.parts;
  const double k = std::ceil(std::ceil(p.K / 64.) / split.parts) * 64;
  const double waves = std::ceil(ctas / (arch.sms * c.clusters[split.cluster]));
  // What neighbours in a cluster share L2 is asked for less often.
  const int tiles_y = cdiv(std::min(p.M, p.N), by);
  const int along_y = std::min({split.cluster, GROUP, std::max(tiles_y, 1)});
  const Shares shares{double(along_y), double(split.cluster) / along_y};
  // Clusters of two and single CTAs take longer than the estimate, by what an H100 measured.
  constexpr double FEW_NEIGHBOURS = 1.1;
  const double loop = flat_loop_us(p, c, arch.sms, bx, by, ctas * k, waves * k, shares) *
                      (split.cluster <= 2 ? FEW_NEIGHBOURS : 1);
  // Each CTA stores its sums at its end; all SMs read them, one part of a unit after the other.
  const double results = bx * by * 1e-6;
  const double bytes = 4 * ctas * results * CONSUMERS * MMA_X / bx;  // millions, of all sums
  const double sums = waves * results * reduce.store + bytes / c.l2 + split.parts * reduce.part;
  const double epilogue = tiles / arch.sms * results * epilogue_k(p, *arch.costs) * 2 / c.tensor;
  return c.launch + repack_us(p, c) + c.wave * (waves - 1) + loop + sums + epilogue +
         apart_us(p, c, tiles / arch.sms * results) + reduce.launch;
}

// The fastest tile, or the one asked for; K in so many parts as one wave has room for, or fewer.
template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  Plan best{.makespan = NEVER};
  for (int i = 0; i < int{std::size(TILES)}; ++i) {
    if (variant != ANY_VARIANT && variant != i) continue;
    const auto [bx, by] = TILES[i];
    const double tiles = std::max(flat_tiles(p, bx, by), 1.0);
    for (const int cluster : {1, 2, 4, 8}) {
      if (std::fmod(tiles, cluster) != 0) continue;  // it would have two parts of K
      const double sms = arch.sms * arch.costs->wgmma.clusters[cluster];
      const int most = std::clamp(cdiv(p.K, BK), 1, std::max(int(sms / tiles), 1));
      for (int parts = 1; parts <= most; ++parts) {
        const double us = estimate(p, arch, bx, by, {parts, cluster});
        if (best.makespan != NEVER && us >= best.makespan) continue;
        best.variant = i;
        best.makespan = us;
        best.keep(Split{parts, cluster});
      }
    }
  }
  // One part is a detour through memory: others have no second kernel.
  if (best.kept<Split>().parts == 1) best.makespan = NEVER;
  return best;
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  const int cluster = plan.kept<Split>().cluster;
  return std::string(p.M <= p.N ? "C^T" : "C") + " in tiles of " + VARIANTS<T>[plan.variant].name +
         ", K in " + std::to_string(plan.kept<Split>().parts) + " parts" +
         (cluster > 1 ? ", clusters of " + std::to_string(cluster) : "") +
         (plan.makespan == NEVER ? ": a detour"
                                 : ", estimated " + std::to_string(int64_t(plan.makespan + 0.5)) +
                                       " us on " + std::to_string(plan.sms) + " SMs");
}

const Registration rung({.prev = "v25",
                         .idea = "split K in any number of parts: a second kernel adds up",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
