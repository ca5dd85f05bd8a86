// v27m multicast: a cluster's CTAs share both operands, in tiles that fill one wave.
//
// before: where row pitches are no multiples of 128 bytes, L2 is asked twice for each row of a
//         k-tile, and how often it can answer is the limit. v24's clusters share B alone. And their
//         tiles have fixed sizes: 1176 x 1680 is 90 of 128 x 192, which leave 42 of 132 SMs idle
// idea:   clusters of up to eight CTAs, a rectangle of tiles. A CTA loads one part of every
//         k-tile of A for its row of the rectangle, and one of B for its column. The tiles' extent
//         along y is cut so that one wave is full: 120 tiles of 128 x 144 ask L2 for 104 rows of a
//         k-tile each, where 272 arrive
// watch:  who may write to a CTA's stage: every CTA of its row and of its column. So a stage is
//         free when all of those say so, and nobody leaves before the last of them has spoken
// needs:  sm_90a; C's rows in whole 16 bytes: v24 otherwise; copies as for v24
//
//   role        threads        waits for      then                      and tells
//   producer    one            empty[stage]   loads its part of X for   full[stage], of all that
//                                             its row of CTAs, of Y     get it
//                                             for its column
//   consumers   1 or 2 x 128   full[stage]    4 wgmma, 64 rows each     empty[stage] of its row and
//                                                                       column, a k-tile later
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes, from all CTAs of the row and column
//   empty[stage]   1 arrival of each consumer of each CTA in this one's row or column
//
//   a cluster of 2 x 2, which half of each k-tile a CTA loads:
//     CTA (0, 0)  X first,  Y first        CTA (0, 1)  X second, Y first
//     CTA (1, 0)  X first,  Y second       CTA (1, 1)  X second, Y second
#include "device/dynamic_shared.cuh"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/row_panels.cuh"
#include "device/wgmma_costs.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_X = 64;                      // depth of a k-tile; rows of a wgmma
constexpr int PRODUCER_REGS = 24, CONSUMER_REGS = 240;  // where there are two consumers

// A variant's tile: its rows, which are wgmma's, the fewest and the most columns, and stages.
// x runs along C's rows and y along its columns or, swapped, the other way: then C^T is computed.
struct Tile {
  int bx, shortest, by, stages;
};
constexpr Tile TILES[] = {{128, 200, 256, 4}, {128, 136, 192, 5}, {128, 32, 128, 7},
                          {64, 136, 192, 6},  {64, 72, 128, 9},   {64, 32, 64, 14}};

// CTAs of a cluster along x and along y: powers of two, by which a kernel divides with a shift.
struct ClusterShape {
  int log_x, log_y;
  GEMM_HOST_DEVICE constexpr int x() const { return 1 << log_x; }
  GEMM_HOST_DEVICE constexpr int y() const { return 1 << log_y; }
  GEMM_HOST_DEVICE constexpr int log_size() const { return log_x + log_y; }
  GEMM_HOST_DEVICE constexpr int size() const { return 1 << log_size(); }
};
constexpr ClusterShape CLUSTERS[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1},
                                     {2, 0}, {0, 2}, {2, 1}, {1, 2}};

// How C is cut: into tiles of bx by `height`, in clusters.
struct Cut {
  ClusterShape cluster;
  int height;      // along y, a multiple of 8
  bool swapped;    // x is n and y is m
  int clusters_x;  // that cover C along x
  int clusters;    // that cover C
  int at_a_time;   // clusters that run at once; each computes several, one after the other
  double us = 0;
};

template <class TileX, class TileY, int STAGES>
struct Shared {                     // every tile starts at a multiple of 1024 bytes
  uint8_t X[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
  uint8_t Y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BY / 64, BK, 64)
  uint64_t full[STAGES], empty[STAGES];
};

// Consumers of 64 rows each, and the producer's warpgroup.
constexpr int threads(int bx) { return (bx / MMA_X + 1) * 128; }

// Rows of shared memory in the part of a tile that each of 2^log_ctas CTAs loads: of its MN rows,
// in whole swizzle atoms, or of its 64 k.
template <class Tile>
GEMM_HOST_DEVICE int part_rows(int mn, int log_ctas) {
  return Tile::ALONG_K ? (mn + (8 << log_ctas) - 1) >> (3 + log_ctas) << 3 : BK >> log_ctas;
}

template <class T, Major X_MAJOR, Major Y_MAJOR, int BX, int SHORTEST, int BY, int STAGES>
__global__ void __launch_bounds__(threads(BX), 1)
    gemm_v27m(GemmArgs<T> p, Cut cut, const __grid_constant__ TensorMap map_x,
              const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  constexpr int CONSUMERS = BX / MMA_X;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  const int size_x = cut.cluster.x(), size_y = cut.cluster.y(), rank = cluster_rank();
  // This CTA's place in the cluster.
  const int rank_x = rank & (size_x - 1), rank_y = rank >> cut.cluster.log_x;
  // CTAs with the same rows of X and with the same of Y, as bits: built for CTA (0, 0), then
  // shifted to this one's place.
  uint32_t share_x = 1;
  for (int i = 1; i < size_y; ++i) share_x |= share_x << size_x;
  share_x <<= rank_x;
  const uint32_t share_y = ((1 << size_x) - 1) << rank_y * size_x;

  auto& s = *static_cast<Shared<TileX, TileY, STAGES>*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS * (size_x + size_y - 1));
  cluster_arrive();
  grid_launch_dependents();
  cluster_wait();  // the others' barriers are there

  // Calls work(x, y) for every tile of this CTA: where in C, or in C^T, it begins.
  const auto for_each_tile = [&](auto&& work) {
    const int log_size = cut.cluster.log_size(), step = gridDim.x >> log_size;
    for (int i = blockIdx.x >> log_size; i < cut.clusters; i += step)
      work((i % cut.clusters_x * size_x + rank_x) * BX,
           (i / cut.clusters_x * size_y + rank_y) * cut.height);
  };

  PipelineState<STAGES> state;
  if (wg == CONSUMERS) {
    // The producer.
    if constexpr (CONSUMERS == 2) setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 == 0 && elect_one()) {
      const int panels = Y_MAJOR == Major::K ? 1 : cdiv(cut.height, TileY::WIDTH);
      const int rows_x = part_rows<TileX>(BX, cut.cluster.log_y);
      const int rows_y = part_rows<TileY>(cut.height, cut.cluster.log_x);
      const int bytes = size_y * rows_x * TileX::PANELS * TileX::ROW_BYTES +
                        size_x * rows_y * panels * TileY::ROW_BYTES;
      for_each_tile([&](int x, int y) {
        grid_dependency_wait(x, y);  // after the first tile's coordinates have been computed
        // [region idea]
        const auto load = [&](int stage, int k_tile) {
          const int k = k_tile * BK;
          uint64_t* const full = &s.full[stage];
          load_part_for<TileX>(s.X[stage], map_x, x, k, full, share_x, rank_y * rows_x);
          load_part_for<TileY>(s.Y[stage], map_y, y, k, full, share_y, rank_x * rows_y, panels);
        };
        load_k_tiles(s.full, s.empty, state, 0, k_tiles, bytes, load);
        // [/region idea]
      });
    }
  } else {
    // A consumer: 64 rows.
    if constexpr (CONSUMERS == 2) setmaxnreg_inc<CONSUMER_REGS>();
    const int other = tid % 128;
    const bool shares = other < size_x * size_y && ((share_x | share_y) >> other & 1) != 0;
    const auto release = [&](int stage) {
      if (shares) mbarrier_arrive_remote(&s.empty[stage], other);
    };
    for_each_tile([&](int x, int y) {
      x += wg * MMA_X;
      GemmArgs<T> tile = p;  // C, cut off at this tile's last row or column along y
      const int end = y + cut.height;
      if (cut.swapped) {
        tile.M = p.M < end ? p.M : end;
        prefetch_c<MMA_X>(tile, true, y, x, cut.height);
      } else {
        tile.N = p.N < end ? p.N : end;
        prefetch_c<BY>(tile, true, x, y, MMA_X);
      }
      float acc[1][BY / 2];
      clear_registers(acc);
      int last = 0;
      with_height<SHORTEST, BY>(cut.height, [&](auto height) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
          mbarrier_wait(&s.full[state.stage], state.phase);
          multiply_k_tile<TileX, TileY, decltype(height)::value>(acc, s.X[state.stage],
                                                                 s.Y[state.stage], wg * MMA_X);
          wgmma_wait<1>();
          if (k_tile > 0) release(last);
        }
      });
      wgmma_wait<0>();
      if (k_tiles > 0) release(last);

      // Epilogue.
      grid_dependency_wait();
      fence_operand(acc[0]);
      if (cut.swapped) {
        apply_epilogue_transposed<32>(tile, y, x, acc[0]);
        store_transposed(tile, y, x, acc[0]);
      } else {
        apply_epilogue<32>(tile, true, x, y, acc[0]);
        store_accumulators_aligned(tile, x, y, acc[0]);
      }
    });
  }
  __syncwarp();  // the producer's warp is one again
  cluster_arrive();
  cluster_wait();  // the others' last k-tiles and arrivals have come
}

// Whether C is computed this way round: with y along the operand that is K-major, so that a box of
// it has any height; either way where both are alike.
template <class T>
bool orientation(const GemmArgs<T>& p, bool swapped) {
  return swapped ? p.op_a == Op::N || p.op_b == Op::N : p.op_b == Op::T || p.op_a == Op::T;
}

// C's rows are in whole 16 bytes.
template <class T>
bool takes(const GemmArgs<T>& p) {
  return has_aligned_c(p);
}

// The tensor map of an operand of mn x k, in boxes of one part of a tile of `extent`.
template <class Tile, class T>
TensorMap part_map(const Repacked<T>& operand, int mn, int k, int extent, int log_ctas) {
  const int rows = part_rows<Tile>(extent, log_ctas);
  return tensor_map(operand.data, Tile::ALONG_K ? mn : k, Tile::ALONG_K ? k : mn, operand.ld, rows,
                    Tile::WIDTH, Tile::MODE);
}

template <class T, int TILE>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  constexpr int BX = TILES[TILE].bx, BY = TILES[TILE].by, STAGES = TILES[TILE].stages;
  const Cut cut = plan.kept<Cut>();
  const TmaOperands<T> in(p, stream);
  const int X = cut.swapped ? p.N : p.M, Y = cut.swapped ? p.M : p.N;
  const Repacked<T>&x = cut.swapped ? in.B : in.A, &y = cut.swapped ? in.A : in.B;
  const int size = cut.cluster.size(), at_a_time = std::min(cut.at_a_time, plan.ctas / size);
  const int grid = std::min(cut.clusters, std::max(at_a_time, 1)) * size;
  const auto with_tiles = [&](auto x_major, auto y_major) {
    using TileX = OperandTile<T, BX, x_major()>;
    using TileY = OperandTile<T, BY, y_major()>;
    gemm::launch(gemm_v27m<T, x_major(), y_major(), BX, TILES[TILE].shortest, BY, STAGES>, grid,
                 dim3(threads(BX)),
                 {.smem = sizeof(Shared<TileX, TileY, STAGES>), .cluster = size, .pdl = true},
                 stream, p, cut, part_map<TileX>(x, X, p.K, BX, cut.cluster.log_y),
                 part_map<TileY>(y, Y, p.K, cut.height, cut.cluster.log_x));
  };
  // B is K-major where it is transposed, A where it is not.
  const auto start = [&](auto x, auto y) {
    if constexpr (x() == Major::MN || y() == Major::K) with_tiles(x, y);  // orientation()
  };
  with_majors(p, [&](auto a, auto b) { cut.swapped ? start(b, a) : start(a, b); });
}

// clang-format off
#define CLUSTERS(TILE, NAME)                                                            \
  {NAME, launch<T, TILE>}, {NAME " c2x1", launch<T, TILE>},                             \
  {NAME " c1x2", launch<T, TILE>}, {NAME " c2x2", launch<T, TILE>},                     \
  {NAME " c4x1", launch<T, TILE>}, {NAME " c1x4", launch<T, TILE>},                     \
  {NAME " c4x2", launch<T, TILE>}, {NAME " c2x4", launch<T, TILE>}
// clang-format on
template <class T>
const Variant<T> VARIANTS[] = {CLUSTERS(0, "128x256 s4"), CLUSTERS(1, "128x192 s5"),
                               CLUSTERS(2, "128x128 s7"), CLUSTERS(3, "64x192 s6"),
                               CLUSTERS(4, "64x128 s9"),  CLUSTERS(5, "64x64 s14")};

// Clusters of this shape that run at a time.
int clusters_at_a_time(const Arch& arch, ClusterShape shape) {
  const double filled = arch.sms * arch.costs->wgmma.clusters[shape.size()];
  return std::max(int(filled + 0.5) / shape.size(), 1);
}

// The main loop's time where y is not K-major, and the last of its blocks of 64 columns is only in
// part a tile's: read off the plan's choices.
constexpr double IN_BLOCKS = 1.15;

// Microseconds where the CTAs of a cluster load for each other; `limit` if they cannot be less.
// Most of several hundred cuts cannot, which shows without the powers of overlapping().
template <class T>
double estimate(const FusedArgs<T>& p, const Arch& arch, const Cut& cut, int bx, double limit) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const WgmmaCosts::Multicast& m = c.multicast;
  const int ctas = cut.clusters * cut.cluster.size(), waves = cdiv(cut.clusters, cut.at_a_time);
  const double k_tiles = cdiv(p.K, BK), depth = waves * k_tiles * BK;  // of all of a CTA's tiles
  const double a = requests_of_row(p.A, p.lda, m), b = requests_of_row(p.B, p.ldb, m);
  const bool y_k_major = cut.swapped ? p.op_a == Op::N : p.op_b == Op::T;
  const int atom = y_k_major ? 8 * cut.cluster.x() : 64;
  const double columns = cdiv(cut.height, atom) * atom;
  // Of a CTA: what its producer asks for, for a k.
  const double rows = bx * (cut.swapped ? b : a) / cut.cluster.y() +
                      columns * (cut.swapped ? a : b) / cut.cluster.x();
  const double multiply = depth * std::max(2e-6 * bx * cut.height / m.tensor, m.k_tile / BK);
  const double from_l2 = 2e-6 * k_tiles * BK * rows * ctas / m.l2;
  const double into_sm = 2e-6 * depth * (bx + columns) / m.fetch;
  const double asked = 2e-6 * depth * rows / m.issue;
  const double memory = memory_us(p, m) * std::max(1.0, m.busy * arch.sms / ctas);
  const bool alone = cut.cluster.size() == 1;
  const bool whole_lines = a == 1 && b == 1;
  double factor = 1;
  if (cut.height % atom != 0 && !y_k_major) factor *= IN_BLOCKS;
  if (alone && whole_lines) factor *= m.alone;
  if (alone && cut.clusters_x == 1 && (cut.swapped ? b : a) > 1) factor *= m.crowded;
  const double results = waves * bx * cut.height * 1e-6;
  const double around = m.launch + (whole_lines ? m.whole_lines : 0) + repack_us(p, c) +
                        (alone ? 0 : m.cluster) + m.wave * (waves - 1) +
                        results * (m.store + epilogue_k(p, *arch.costs) * 2 / c.tensor);
  const double longest = std::max({multiply, from_l2, into_sm, asked, memory});
  if (around + longest * factor >= limit) return limit;
  return around + overlapping(multiply, overlapping(from_l2, into_sm, asked), memory) * factor;
}

// Calls consider(cut) for the ways to cut C into tiles of `tile` in such clusters: of as many as
// fill one wave, or up to four. A panel of 64 columns that is not K-major is read as a whole.
template <class T, class Consider>
void for_each_cut(const FusedArgs<T>& p, const Arch& arch, const Tile& tile, ClusterShape shape,
                  Consider&& consider) {
  for (const bool swapped : {false, true}) {
    if (!orientation(p, swapped)) continue;
    const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
    const int clusters_x = cdiv(cdiv(X, tile.bx), shape.x());
    const int at_a_time = clusters_at_a_time(arch, shape);
    int before[2] = {};  // the last height by either step: more waves often have the same
    for (int waves = 1; waves <= 4; ++waves) {
      const int most = std::max(waves * at_a_time / std::max(clusters_x, 1), 1);  // along y
      const int least = cdiv(Y, most * shape.y());
      for (const int step : {8, 64}) {
        const int height = std::clamp(cdiv(least, step) * step, tile.shortest, tile.by);
        if (height == before[step == 64]) continue;
        before[step == 64] = height;
        const int64_t clusters = int64_t{clusters_x} * cdiv(cdiv(Y, height), shape.y());
        if (clusters < 1 << 24)
          consider(Cut{shape, height, swapped, clusters_x, int(clusters), at_a_time});
      }
    }
  }
}

// The factor for a dispatcher where rows are in whole lines: read off v28's choices on the grid and
// on the layers.
constexpr double WHOLE_LINES = 1.05;

// How many waves a dispatcher takes this rung for. Nothing hides a tile's epilogue, and in many
// waves CTAs drift apart, so that L2 is asked again for what it has lost. Where rows lie across
// lines the other rungs are slower still, but for v27w, which takes no transposed A.
template <class T>
int most_waves(const GemmArgs<T>& p, const WgmmaCosts::Multicast& m) {
  const double requests = std::max(requests_of_row(p.A, p.lda, m), requests_of_row(p.B, p.ldb, m));
  if (requests == 1) return 1;
  if (p.op_a == Op::T) return 16;
  return requests > m.sectors ? 4 : 3;
}

// The tile, cluster and height with the least estimate.
template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  constexpr int SHAPES = std::size(CLUSTERS);
  Plan best{.makespan = NEVER};
  for (int i = 0; i < int{std::size(TILES)} * SHAPES; ++i) {
    if (variant != ANY_VARIANT && variant != i) continue;
    const Tile& tile = TILES[i / SHAPES];
    for_each_cut(p, arch, tile, CLUSTERS[i % SHAPES], [&](Cut cut) {
      cut.us = estimate(p, arch, cut, tile.bx, best.makespan);
      if (best.variant != ANY_VARIANT && cut.us >= best.makespan) return;
      best.variant = i;
      best.makespan = cut.us;
      best.keep(cut);
    });
  }
  if (best.variant == ANY_VARIANT) return best;
  const Cut cut = best.kept<Cut>();
  if (cdiv(cut.clusters, cut.at_a_time) > most_waves(p, arch.costs->wgmma.multicast))
    best.makespan = NEVER;
  const bool whole_lines = !straddles_lines(p.A, p.lda) && !straddles_lines(p.B, p.ldb);
  best.makespan *= arch.costs->wgmma.multicast.scale * (whole_lines ? WHOLE_LINES : 1);
  return best;
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  const Cut cut = plan.kept<Cut>();
  const int bx = TILES[plan.variant / std::size(CLUSTERS)].bx;
  return std::string(cut.swapped ? "C^T" : "C") + " in tiles of " + std::to_string(bx) + " x " +
         std::to_string(cut.height) + ", " + std::to_string(cut.clusters) + " clusters of " +
         std::to_string(cut.cluster.x()) + " x " + std::to_string(cut.cluster.y()) +
         " CTAs, estimated " + std::to_string(int64_t(cut.us + 0.5)) + " us";
}

const Registration rung({.prev = "v27c",
                         .idea = "multicast: clusters share both operands, in one wave",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, takes}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, takes})});

}  // namespace
