// v27s split columns: wide panels and a part of K, in clusters that share B and the sums.
//
// before: 512 x 1280 has so few results that v27c's panels are 80 columns wide. Such a tile needs
//         more bytes a cycle than L2 delivers. v25 cuts K, but no two CTAs of its clusters read
//         the same
// idea:   both in one cluster. Two CTAs, one above the other, share B's panel, as in v27c; up to
//         four such pairs share its K, as in v25. Panels are two or three times as wide, and
//         nearly as many SMs work
// watch:  one tile a CTA: no main loop hides how sums are exchanged and stored. Clusters of four or
//         eight leave 12 of 132 SMs idle, clusters of six 30
// needs:  sm_90a; A as stored, B transposed; v24 otherwise; copies as for v24
//
//   role        threads   waits for      then                         and tells
//   producer    one       empty[stage]   loads A's k-tile, and B's    full[stage], of both CTAs
//                                        in its turn                  where B's comes
//   consumers   2 x 128   full[stage]    4 wgmma, 64 rows each        empty[stage] of both CTAs,
//                                                                     a k-tile later
//               together  the cluster    send sums to their owners    the cluster
//               together  the cluster    add up what they own, store it
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes: A's own, B's from either CTA
//   empty[stage]   4 arrivals, of both consumers of both CTAs of a pair
//
//   a cluster of 3 pairs:  rows 0-127   | CTA 0, K's 1st part | CTA 2, 2nd | CTA 4, 3rd |
//                          rows 128-255 | CTA 1, K's 1st part | CTA 3, 2nd | CTA 5, 3rd |
#include "device/cluster_sums.cuh"
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/row_panels.cuh"
#include "device/unit_rows.cuh"
#include "device/vec.cuh"
#include "device/wgmma_costs.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int BM = 128, BK = 64, MMA_M = 64;  // rows of a tile; depth of a k-tile; rows of a wgmma
constexpr int PAIR = 2;                       // CTAs, one above the other, with the same k-tiles
constexpr int MAX_PARTS = 4;                  // of K: pairs of a cluster
constexpr int CONSUMERS = 2, WORKERS = CONSUMERS * 128;  // warpgroups, their threads
constexpr int THREADS = WORKERS + 32;                    // and the producer's warp

// Columns of the narrowest and of the widest panel, and stages: narrow panels leave room for more.
struct Width {
  int narrowest, bn, stages;
};
constexpr Width WIDTHS[] = {{200, 256, 4}, {136, 192, 5}, {72, 128, 7}};

template <class TileA, class TileB, int STAGES>
struct Shared {  // every tile starts at a multiple of 1024 bytes
  static constexpr int UNITS = BM / MMA_M * TileB::EXTENT / 8, ROWS = UNITS / 2;
  union {
    struct {
      uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK), swizzled
      uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN, BK), swizzled
    };
    struct {
      Vec<float> parts[(UNITS + MAX_PARTS) * 128];  // (parts of K, own units, 128)
      float rows[ROWS * UNIT_ROOM];                 // own units of C, in rows
    };
  };
  uint64_t full[STAGES], empty[STAGES];
};

// `columns`: of all panels, a multiple of 8. The cluster is a tile of 256 rows of C.
template <class T, int NARROWEST, int BN, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v27s(GemmArgs<T> p, int columns, bool aligned_c, const __grid_constant__ TensorMap map_a,
              const __grid_constant__ TensorMap map_b) {
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  using Smem = Shared<TileA, TileB, STAGES>;
  const int tid = threadIdx.x, wg = warpgroup(), size = cluster_size(), parts = size / PAIR;
  const int part = cluster_rank() / PAIR, row = cluster_rank() % PAIR;
  // The tiles of a panel follow each other, so that B comes from memory once.
  const int tile = blockIdx.x / size, tiles_m = cdiv(p.M, PAIR * BM);
  const int m = (tile % tiles_m * PAIR + row) * BM, n = tile / tiles_m * columns;
  const int64_t k_tiles = cdiv(p.K, BK);
  const int begin = int(k_tiles * part / parts), end = int(k_tiles * (part + 1) / parts);

  auto& s = *static_cast<Smem*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, PAIR * CONSUMERS);
  cluster_arrive();
  grid_launch_dependents();
  cluster_wait();  // the neighbour's barriers are there

  PipelineState<STAGES> state;
  float acc[1][BN / 2] = {};
  if (tid >= WORKERS) {
    // The producer.
    grid_dependency_wait();  // after the tile's coordinates have been computed
    if (elect_one()) {
      // [region idea]
      const uint16_t pair = 0b11 << part * PAIR;  // CTAs of the cluster
      const auto load = [&](int stage, int k_tile) {
        if (k_tile % PAIR == row)
          tma_load_multicast(s.B[stage], map_b, n, k_tile * BK, &s.full[stage], pair);
        TileA::load(s.A[stage], map_a, m, k_tile * BK, &s.full[stage]);
      };
      const int bytes = TileA::BYTES + columns * BK * 2;
      load_k_tiles(s.full, s.empty, state, begin, end, bytes, load);
      // [/region idea]
    }
  } else {
    // A consumer: 64 rows.
    const auto release = [&](int stage) {
      if (tid % 128 < PAIR) mbarrier_arrive_remote(&s.empty[stage], part * PAIR + tid % 128);
    };
    with_height<NARROWEST, BN>(columns, [&](auto width) {
      int last = 0;
      for (int k_tile = begin; k_tile < end; ++k_tile, last = state.stage, state.advance()) {
        mbarrier_wait(&s.full[state.stage], state.phase);
        multiply_k_tile<TileA, TileB, decltype(width)::value>(acc, s.A[state.stage],
                                                              s.B[state.stage], wg * MMA_M);
        wgmma_wait<1>();
        if (k_tile > begin) release(last);
      }
    });
    wgmma_wait<0>(acc[0]);
  }

  // Sums of the CTAs that share this one's rows.
  const UnitShares shares{BM / MMA_M * columns / 8, parts};
  cluster_arrive();  // this CTA's k-tiles have been read: sums take their place
  cluster_wait();
  if (tid < WORKERS)
    send_units(s.parts, shares, part, wg * (columns / 8), columns / 8, acc[0],
               [&](int owner) { return owner * PAIR + row; });
  cluster_arrive();
  cluster_wait();  // all parts have come
  if (tid >= WORKERS) return;
  store_sums<Smem::ROWS, WORKERS>(p, s.parts, s.rows, shares, parts, part, false, aligned_c,
                                  [&](int unit, int& x, int& y) {
                                    x = m + unit / (columns / 8) * MMA_M;
                                    y = n + unit % (columns / 8) * 8;
                                  });
}

// How C is cut: into panels of so many columns, and K into so many parts.
struct Cut {
  int columns, parts;
  double us;
};

template <class T>
int64_t tiles(const GemmArgs<T>& p, int columns) {
  return int64_t{cdiv(p.M, PAIR * BM)} * cdiv(p.N, columns);
}

template <class T, int WIDTH, int PARTS>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  constexpr int BN = WIDTHS[WIDTH].bn, STAGES = WIDTHS[WIDTH].stages;
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, Major::K>;
  const int columns = plan.kept<Cut>().columns;
  const TmaOperands<T> in(p, stream);
  gemm::launch(gemm_v27s<T, WIDTHS[WIDTH].narrowest, BN, STAGES>, tiles(p, columns) * PARTS * PAIR,
               dim3(THREADS),
               {.smem = sizeof(Shared<TileA, TileB, STAGES>), .cluster = PARTS * PAIR, .pdl = true},
               stream, p, columns, has_aligned_c(p), TileA::map(in.A.data, p.M, p.K, in.A.ld),
               tensor_map(in.B.data, p.N, p.K, in.B.ld, columns, BK, TileB::MODE));
}

// clang-format off
#define PARTS(WIDTH, NAME)                                                              \
  {NAME, launch<T, WIDTH, 1>}, {NAME " split 2", launch<T, WIDTH, 2>},                  \
  {NAME " split 3", launch<T, WIDTH, 3>}, {NAME " split 4", launch<T, WIDTH, 4>}
// clang-format on
template <class T>
const Variant<T> VARIANTS[] = {PARTS(0, "256 s4"), PARTS(1, "192 s5"), PARTS(2, "128 s7")};

// Clusters with so many parts of K that run at a time.
int clusters(const Arch& arch, int parts) {
  const double filled = arch.sms * arch.costs->wgmma.clusters[parts * PAIR];
  return std::max(int(filled + 0.5) / (parts * PAIR), 1);
}

// Microseconds: v25's estimate for one tile a CTA, where a pair reads B once.
template <class T>
double estimate(const FusedArgs<T>& p, const Arch& arch, int columns, int parts) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double all = double(tiles(p, columns));
  const double waves = std::ceil(all / clusters(arch, parts));
  const double k = std::ceil(std::ceil(p.K / double(BK)) / parts) * BK;
  const double multiply = waves * k * 2e-6 * BM * columns / c.tensor;
  const double bytes = 2e-6 * (BM * requests_of_row(p.A, p.lda, c) +
                               columns * requests_of_row(p.B, p.ldb, c) / double(PAIR));
  const double fetch = std::max(bytes * all * parts * PAIR * k / c.l2, bytes * waves * k / c.fetch);
  const double uneven = waves * arch.sms / (all * parts * PAIR);
  const double loop = overlapping(multiply, fetch, uneven_memory_us(p, c, uneven));
  const double results = waves * BM * columns * 1e-6;
  const double epilogue = results * epilogue_k(p, *arch.costs) * 2 / c.tensor / parts;
  return c.launch + repack_us(p, c) + c.wave * (waves - 1) + loop + epilogue +
         exchange_us(c, results, parts) + apart_us(p, c, results / parts);
}

// The width and the number of parts with the least estimate. Of panels as many as fill a few waves.
template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  constexpr int MOST_WAVES = 3;
  const int tiles_m = std::max(cdiv(p.M, PAIR * BM), 1);
  Plan best{.makespan = NEVER};
  for (int i = 0; i < int{std::size(WIDTHS)} * MAX_PARTS; ++i) {
    if (variant != ANY_VARIANT && variant != i) continue;
    const Width& width = WIDTHS[i / MAX_PARTS];
    const int parts = i % MAX_PARTS + 1;
    for (int waves = 1; waves <= MOST_WAVES; ++waves) {
      const int panels = std::max(waves * clusters(arch, parts) / tiles_m, 1);
      const int columns = std::clamp(cdiv(cdiv(p.N, panels), 8) * 8, width.narrowest, width.bn);
      const double us = estimate(p, arch, columns, parts);
      if (best.makespan != NEVER && us >= best.makespan) continue;
      best.variant = i;
      best.makespan = us;
      best.keep(Cut{columns, parts, us});
    }
  }
  // For a dispatcher: one wave, as nothing hides what stands between two, and rows for both CTAs of
  // a pair. Where K is whole v27c is faster, which takes up to 1024 rows.
  const Cut cut = best.kept<Cut>();
  const bool one_wave = tiles(p, cut.columns) <= clusters(arch, cut.parts);
  if (!one_wave || p.M <= BM || (cut.parts == 1 && p.M <= 1024)) best.makespan = NEVER;
  return best;
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  const Cut cut = plan.kept<Cut>();
  return std::to_string(cdiv(p.N, cut.columns)) + " column panels of " +
         std::to_string(cut.columns) + ", " + std::to_string(tiles(p, cut.columns)) +
         " clusters of " + std::to_string(cut.parts * PAIR) + " CTAs, estimated " +
         std::to_string(int64_t(cut.us + 0.5)) + " us";
}

// A panel of columns can begin anywhere in a K-major B.
template <class T>
bool takes(const GemmArgs<T>& p) {
  return p.op_a == Op::N && p.op_b == Op::T;
}

const Registration rung({.prev = "v27c",
                         .idea = "split columns: clusters that share B, K and the sums",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, takes}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, takes})});

}  // namespace
