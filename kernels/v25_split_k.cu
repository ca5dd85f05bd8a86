// v25 split K: few tiles, many SMs.
//
// before: v24's tiles are 128 x 128. Where C has 16 rows, seven eighths of a tile are wasted; 4096
//         columns make 32 tiles, and 100 SMs fetch nothing, although all that counts is how fast B
//         comes from memory
// idea:   compute C^T where C is flat: the long side becomes wgmma's 64 rows, the short one its
//         columns, of which 16 are enough; and the CTAs of a cluster share a tile, each with a part
//         of K. They add up their sums through each other's shared memory
// watch:  how many CTAs a tile has. More fetch more at once, and have more to send each other.
//         Where K is short, two CTAs share an SM: one multiplies while the other one adds up
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
//
//   role        threads   waits for      then                         and tells
//   producer    one       empty[stage]   loads a k-tile of its part   full[stage], by TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma                      empty[stage], a k-tile later
//               together  the cluster    send sums to their owners    the cluster
//               together  the cluster    add up what they own, store it
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of each consumer that reads it: 2, or 1 where they share K
//
//   CTA 0    | first part of K  ... | sums to owners | cluster's barrier | add, store
//   CTA 1    | second part of K ... | sums to owners | cluster's barrier | add, store
//            Large tiles' sums take the place of k-tiles: a barrier before they are sent, too.

#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/unit_rows.cuh"
#include "device/vec.cuh"
#include "device/wgmma_epilogue.cuh"
#include "engine/cluster_sums.cuh"
#include "engine/problem_of.h"
#include "plan/split_k.h"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int MMA_X = 64, BK = 64;  // rows of one wgmma; depth of a k-tile
constexpr int FETCH = 128;          // bytes from memory at once: the next 128 may be another CTA's
constexpr int CONSUMERS = 2, WORKERS = CONSUMERS * 128;  // warpgroups, their threads
constexpr int THREADS = WORKERS + 32;                    // and the producer's warp

// A tile's units by all CTAs of its cluster, where all own as many: of the worst number of CTAs.
constexpr int most_parts(int units, Splits splits) {
  int most = 0;
  for (int split = 1; split <= MAX_SPLIT; split += splits == Splits::all ? 1 : split)
    most = std::max(most, split * cdiv(units, split));
  return most;
}

// Shared memory of a CTA whose tile has BX rows along the long side and BY along the short one. The
// tile's sums are made of units, 64 x 8: four of them a thread of a warpgroup.
template <class TileX, class TileY, int STAGES>
struct Layout {
  static constexpr int BX = TileX::EXTENT, BY = TileY::EXTENT, UNITS = BX / MMA_X * BY / 8;
  static constexpr int K_GROUPS = CONSUMERS * MMA_X / BX;  // intra-CTA split-K, see the consumers
  static_assert(STAGES % K_GROUPS == 0, "a stage's phases are all waited for by one consumer");

  struct Pipeline {
    uint8_t x[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
    uint8_t y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BK, BY)
  };
  // All CTAs' sums of the units that this one owns: (PARTS * owned, 128).
  template <Splits SPLITS>
  using Parts = Vec<float>[K_GROUPS * most_parts(UNITS, SPLITS) * 128];
  template <int COUNT>
  using Rows = float[COUNT * UNIT_ROOM];  // of those units, so many in rows

  static constexpr size_t SM_BYTES = 226 * 1024;  // for the shared memory of an SM's CTAs
  static constexpr int PER_SM = sizeof(Pipeline) <= SM_BYTES / 2 ? 2 : 1;
  // Sums have a place of their own where there is room: nobody waits for the cluster's last k-tile.
  using FewParts = Parts<Splits::powers_of_two>;
  static constexpr bool ROOM = sizeof(Pipeline) + sizeof(FewParts) + 1024 <= SM_BYTES / PER_SM;
  static constexpr int ROWS = ROOM ? UNITS : UNITS / 2;  // units that have room in rows
  struct Apart {
    union {
      Pipeline pipeline;
      Rows<ROWS> rows;
    };
    FewParts parts;
  };
  struct InTurn {
    union {
      Pipeline pipeline;
      struct {
        Parts<Splits::all> parts;
        Rows<ROWS> rows;
      };
    };
  };
};
template <class TileX, class TileY, int STAGES, class L = Layout<TileX, TileY, STAGES>>
struct Shared : L, std::conditional_t<L::ROOM, typename L::Apart, typename L::InTurn> {
  uint64_t full[STAGES], empty[STAGES];
};

// With x along C's long side and y along its short one: X is A, and Y is B, or swapped. The cluster
// is a tile's CTAs.
template <class T, Major X_MAJOR, Major Y_MAJOR, int BX, int BY, int STAGES, int PER_SM>
__global__ void __launch_bounds__(THREADS, PER_SM)
    gemm_v25(GemmArgs<T> p, bool swapped, bool aligned_c, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  using Smem = Shared<TileX, TileY, STAGES>;
  constexpr int K_GROUPS = Smem::K_GROUPS, UNITS = Smem::UNITS;
  const int tid = threadIdx.x, rank = cluster_rank(), split = cluster_size();
  const int tile = blockIdx.x / split, tiles_x = cdiv(swapped ? p.N : p.M, BX);
  const int x0 = tile % tiles_x * BX, y0 = tile / tiles_x * BY;
  const int64_t k_tiles = cdiv(p.K, BK);
  const int begin = int(k_tiles * rank / split), end = int(k_tiles * (rank + 1) / split);

  auto& s = *static_cast<Smem*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS / K_GROUPS);
  __syncthreads();
  if constexpr (Smem::ROOM) cluster_arrive();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  float acc[BY / 2] = {};
  const int wg = warpgroup(), k_group = wg % K_GROUPS;
  const int row_block = wg / K_GROUPS;  // which 64 of the tile's rows
  if (tid >= WORKERS) {
    // The producer.
    grid_dependency_wait();  // after the tile's coordinates have been computed
    if (elect_one())
      produce<TileX, TileY>(s.pipeline.x[0], s.pipeline.y[0], s.full, s.empty, state, map_x, map_y,
                            x0, y0, begin, end);
  } else {
    // A consumer: every k-tile; every other where a tile has 64 rows: stages are free sooner.
    int last = 0;
    state.skip(k_group);
    for (int k_tile = begin + k_group; k_tile < end; k_tile += K_GROUPS, state.skip(K_GROUPS)) {
      const int stage = state.stage;
      mbarrier_wait(&s.full[stage], state.phase);
      multiply_k_tile<TileX, TileY>(acc, s.pipeline.x[stage], s.pipeline.y[stage],
                                    row_block * MMA_X);
      wgmma_wait<1>();
      if (tid % 128 == 0 && k_tile >= begin + K_GROUPS) mbarrier_arrive(&s.empty[last]);
      last = stage;
    }
    wgmma_wait<0>(acc);
  }

  // [region idea]
  // Each CTA sends all sums to those who own them, and adds up all parts of its own.
  const UnitShares shares{UNITS, split};
  if constexpr (!Smem::ROOM) cluster_arrive();  // its k-tiles have been read: sums take their place
  cluster_wait();                               // the cluster's CTAs are there, and have room
  if (tid < WORKERS)
    send_units(s.parts, shares, rank * K_GROUPS + k_group, row_block * (BY / 8), BY / 8, acc);
  cluster_arrive();
  cluster_wait();  // all parts have come
  if (tid >= WORKERS) return;
  store_sums<WORKERS>(p, s.parts, s.rows, Smem::ROWS, shares, split * K_GROUPS, rank, swapped,
                      aligned_c, [&](int unit, int& x, int& y) {
                        x = x0 + unit / (BY / 8) * MMA_X;
                        y = y0 + unit % (BY / 8) * 8;
                      });
  // [/region idea]
}

template <class T, int BX, int BY, int STAGES, int SPLIT>
void launch(const GemmArgs<T>& p, const Plan&, Stream stream) {
  const bool swapped = p.M <= p.N;
  const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
  const int64_t grid = int64_t{cdiv(X, BX)} * cdiv(Y, BY) * SPLIT;
  const TmaOperands<T> in(p, stream);
  const Repacked<T>&x = swapped ? in.B : in.A, &y = swapped ? in.A : in.B;
  const bool aligned_c = has_aligned_c(p);
  const auto start = [&](auto x_major, auto y_major) {
    using TileX = OperandTile<T, BX, x_major()>;
    using TileY = OperandTile<T, BY, y_major()>;
    using Smem = Shared<TileX, TileY, STAGES>;
    static_assert((SPLIT & (SPLIT - 1)) == 0 || !Smem::ROOM, "Apart has powers of two");
    gemm::launch(gemm_v25<T, x_major(), y_major(), BX, BY, STAGES, Smem::PER_SM>, grid,
                 dim3(THREADS), {.smem = sizeof(Smem), .cluster = SPLIT, .pdl = true}, stream, p,
                 swapped, aligned_c, TileX::map(x.data, X, p.K, x.ld, FETCH),
                 TileY::map(y.data, Y, p.K, y.ld, FETCH));
  };
  // B is K-major where it is transposed, A where it is not.
  with_majors(p, [&](auto a, auto b) { swapped ? start(b, a) : start(a, b); });
}

// clang-format off
#define SPLIT(NAME, BX, BY, STAGES, N) {NAME " split " #N, launch<T, BX, BY, STAGES, N>}
#define POWERS_OF_TWO(NAME, BX, BY, STAGES)                               \
  {NAME, launch<T, BX, BY, STAGES, 1>}, SPLIT(NAME, BX, BY, STAGES, 2),   \
  SPLIT(NAME, BX, BY, STAGES, 4), SPLIT(NAME, BX, BY, STAGES, 8)
#define ALL(NAME, BX, BY, STAGES)                                         \
  {NAME, launch<T, BX, BY, STAGES, 1>}, SPLIT(NAME, BX, BY, STAGES, 2),   \
  SPLIT(NAME, BX, BY, STAGES, 3), SPLIT(NAME, BX, BY, STAGES, 4),         \
  SPLIT(NAME, BX, BY, STAGES, 5), SPLIT(NAME, BX, BY, STAGES, 6),         \
  SPLIT(NAME, BX, BY, STAGES, 7), SPLIT(NAME, BX, BY, STAGES, 8)
// clang-format on
template <class T>
const Variant<T> VARIANTS[] = {
    POWERS_OF_TWO("64x16", 64, 16, 18),
    POWERS_OF_TWO("64x32", 64, 32, 14),
    POWERS_OF_TWO("64x64", 64, 64, 12),
    POWERS_OF_TWO("128x64", 128, 64, 8),
    ALL("128x128", 128, 128, 6),
    ALL("128x256", 128, 256, 4),
    {"64x16 s10", launch<T, 64, 16, 10, 1>},  // two CTAs an SM
    {"128x64 s4", launch<T, 128, 64, 4, 1>},
};
static_assert(std::size(VARIANTS<half>) == split_k_variants(), "SPLIT_K_TILES, in the same order");

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const Estimate best = best_split_k_tile(problem_of(p), arch, variant);
  return {.variant = best.variant, .makespan = best.us};
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  return std::string(p.M <= p.N ? "C^T" : "C") + " in tiles of " + VARIANTS<T>[plan.variant].name +
         ", estimated " + std::to_string(int64_t(plan.makespan + 0.5)) + " us on " +
         std::to_string(plan.sms) + " SMs";
}

const Registration rung({.prev = "v24",
                         .idea = "split K: a cluster a tile, C^T where C is flat",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
