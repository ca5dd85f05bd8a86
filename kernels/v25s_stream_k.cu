// v25s narrow stream-K: few tiles, and every SM has as many bytes to fetch.
//
// before: v25's tiles of few columns are whole CTAs, or whole clusters. 10240 rows are 160 tiles:
//         132 SMs compute 132 of them, then 28. 5120 are 80: 52 SMs fetch nothing, and with K in
//         two parts there are 160 again. Memory decides such a product, and it idles
// idea:   v13's: the k-tiles of all tiles form one row, cut into equal shares, one a CTA. A share
//         may begin and end within a tile. Whoever begins a tile adds what the others have summed
// watch:  who waits for whom. A CTA computes the end of a tile first, as its first work, and the
//         beginning of another one last: then the other parts of that are there
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
//
//   role        threads   waits for      then                          and tells
//   producer    one       empty[stage]   loads a k-tile of its share   full[stage], by TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma                       empty[stage], a k-tile later
//               a warp    flags          adds the sums of the CTAs that have the rest of a tile
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of each consumer that reads it: 2, or 1 where they share K
//
//   CTA 2    | tile 0 ........... | begins tile 1 | add, store |
//   CTA 1    | ends tile 1 | begins tile 2 ...... | add, store |
//   CTA 0    | ends tile 2 ... | tile 3 ..................... |

#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/unit_rows.cuh"
#include "device/vec.cuh"
#include "device/wgmma_epilogue.cuh"
#include "engine/problem_of.h"
#include "plan/split_k.h"
#include "rung.h"
#include "v25s_stream_k/fixup.cuh"

namespace {
using namespace gemm;

constexpr int MMA_X = 64, BK = 64;  // rows of one wgmma; depth of a k-tile
constexpr int FETCH = 128;          // bytes from memory at once: the next 128 may be another CTA's
constexpr int CONSUMERS = 2, WORKERS = CONSUMERS * 128;  // warpgroups, their threads
constexpr int THREADS = WORKERS + 32;                    // and the producer's warp

// Shared memory of a CTA whose tile has BX rows along C's long side and BY along the short one. The
// tile's sums are made of units, 64 x 8: four of them a thread of a warpgroup.
template <class TileX, class TileY, int STAGES>
struct Shared {
  static constexpr int BX = TileX::EXTENT, BY = TileY::EXTENT;
  static constexpr int K_GROUPS = WORKERS / 2 / BX;  // intra-CTA split-K, see the consumers
  static_assert(STAGES % K_GROUPS == 0, "a stage's phases are all waited for by one consumer");
  // Units of a consumer, and how many of them have room in rows.
  static constexpr int OWN = BY / 8 / K_GROUPS, AT_ONCE = OWN < 8 ? OWN : 8;

  uint8_t x[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
  uint8_t y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BK, BY)
  Vec<float> parts[K_GROUPS == 1 ? 1 : BY / 8][K_GROUPS == 1 ? 1 : 128];  // of K groups
  float rows[CONSUMERS][AT_ONCE * UNIT_ROOM];
  uint64_t full[STAGES], empty[STAGES];
};

// The k-tiles of all tiles in equal shares: the first `longer` have one more than `length`.
struct Shares {
  int64_t length;
  int longer;
  GEMM_DEVICE int64_t begin(int share) const {
    return share * length + (share < longer ? share : longer);
  }
};

// k-tiles begin <= k < end of a tile.
struct Part {
  int tile, begin, end;
};

// With x along C's long side and y along its short one: X is A, and Y is B, or swapped.
template <class T, Major X_MAJOR, Major Y_MAJOR, int BX, int BY, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v25s(GemmArgs<T> p, bool swapped, bool aligned_c, Shares shares, Fixup fixup,
              const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  using Smem = Shared<TileX, TileY, STAGES>;
  constexpr int K_GROUPS = Smem::K_GROUPS, OWN = Smem::OWN, AT_ONCE = Smem::AT_ONCE;
  const int tid = threadIdx.x;
  const int tiles_y = cdiv(swapped ? p.M : p.N, BY);
  const int k_tiles = cdiv(p.K, BK), tile_length = k_tiles > 0 ? k_tiles : 1;
  // The last CTA has the first share: who begins a tile waits for CTAs before it.
  const int share = gridDim.x - 1 - blockIdx.x;
  const int64_t begin = shares.begin(share), end = shares.begin(share + 1);
  const auto for_each_part = [&](auto&& compute) {
    Part part{int(begin / tile_length), int(begin % tile_length), 0};
    for (int64_t left = end - begin; left > 0; part = {part.tile + 1, 0, 0}) {
      part.end = left < tile_length - part.begin ? part.begin + int(left) : tile_length;
      left -= part.end - part.begin;
      compute(part);
    }
  };

  auto& s = *static_cast<Smem*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS / K_GROUPS);
  __syncthreads();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  if (tid >= WORKERS) {
    // The producer.
    grid_dependency_wait();
    if (!elect_one()) return;
    for_each_part([&](const Part& part) {
      const int x0 = part.tile / tiles_y * BX, y0 = part.tile % tiles_y * BY;
      produce<TileX, TileY>(s.x[0], s.y[0], s.full, s.empty, state, map_x, map_y, x0, y0,
                            part.begin, part.end < k_tiles ? part.end : k_tiles);
    });
    return;
  }

  // A consumer: every k-tile of its 64 rows; every other where a tile has 64 rows.
  grid_dependency_wait();
  const int wg = warpgroup(), k_group = wg % K_GROUPS, row_block = wg / K_GROUPS;
  int64_t before = 0, next = k_group;  // k-tiles of the share: in earlier parts, this consumer's
  state.skip(k_group);
  for_each_part([&](const Part& part) {
    float acc[BY / 2] = {};
    const int64_t after = before + (k_tiles > 0 ? part.end - part.begin : 0);
    int last = -1;
    for (; next < after; next += K_GROUPS, state.skip(K_GROUPS)) {
      const int stage = state.stage;
      mbarrier_wait(&s.full[stage], state.phase);
      multiply_k_tile<TileX, TileY>(acc, s.x[stage], s.y[stage], row_block * MMA_X);
      wgmma_wait<1>();
      if (tid % 128 == 0 && last >= 0) mbarrier_arrive(&s.empty[last]);
      last = stage;
    }
    wgmma_wait<0>(acc);
    if (tid % 128 == 0 && last >= 0) mbarrier_arrive(&s.empty[last]);
    before = after;

    // This consumer's units, from k_group * OWN on: with the other one's sums of them.
    float sums[OWN][4];
#pragma unroll
    for (int i = 0; i < OWN * 4; ++i) sums[i / 4][i % 4] = acc[i];
    if constexpr (K_GROUPS > 1) {
      named_barrier_sync(1, WORKERS);  // all have read the last tile's
#pragma unroll
      for (int i = 0; i < OWN; ++i) {
        Vec<float> four = {};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float low = acc[i * 4 + e], high = acc[(OWN + i) * 4 + e];
          sums[i][e] = k_group == 0 ? low : high;
          four.set(e, k_group == 0 ? high : low);
        }
        s.parts[(1 - k_group) * OWN + i][tid % 128] = four;
      }
      named_barrier_sync(1, WORKERS);
#pragma unroll
      for (int i = 0; i < OWN; ++i) {
        const Vec<float> four = s.parts[k_group * OWN + i][tid % 128];
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][e] += four[e];
      }
    }
    // [region idea]
    if (part.begin > 0) {
      fixup.store_partials(blockIdx.x * CONSUMERS + wg, sums);
      return;
    }
    int64_t rest = tile_length - part.end;
    for (int other = 1; rest > 0; ++other) {
      fixup.add_partials((blockIdx.x - other) * CONSUMERS + wg, sums);
      rest -= shares.begin(share + other + 1) - shares.begin(share + other);
    }
    // [/region idea]
    // To C by way of shared memory, so that neighbouring threads store neighbours in a row.
    const int x0 = part.tile / tiles_y * BX + row_block * MMA_X;
    const int y0 = part.tile % tiles_y * BY + k_group * OWN * 8;
#pragma unroll
    for (int first = 0; first < OWN; first += AT_ONCE) {
      named_barrier_sync(2 + wg, 128);  // all have stored those before
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) put_unit(s.rows[wg], i, swapped, sums[first + i]);
      named_barrier_sync(2 + wg, 128);
      store_units(p, s.rows[wg], AT_ONCE, swapped, aligned_c, tid % 128, 128,
                  [&](int unit, int& x, int& y) { x = x0, y = y0 + (first + unit) * 8; });
    }
  });
}

template <class T, int BX, int BY, int STAGES>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  const bool swapped = p.M <= p.N;
  const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
  const int64_t tiles = int64_t{cdiv(X, BX)} * cdiv(Y, BY);
  const int64_t all = tiles * std::max(cdiv(p.K, BK), 1), grid = std::min<int64_t>(all, plan.ctas);
  if (grid == 0) return;
  const TmaOperands<T> in(p, stream);
  const Repacked<T>&x = swapped ? in.B : in.A, &y = swapped ? in.A : in.B;
  const FixupWorkspace fixup(tiles % grid == 0 ? 0 : grid * CONSUMERS, BX * BY / CONSUMERS, stream);
  const auto start = [&](auto x_major, auto y_major) {
    using TileX = OperandTile<T, BX, x_major()>;
    using TileY = OperandTile<T, BY, y_major()>;
    gemm::launch(gemm_v25s<T, x_major(), y_major(), BX, BY, STAGES>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileX, TileY, STAGES>), .pdl = true}, stream, p, swapped,
                 has_aligned_c(p), Shares{all / grid, int(all % grid)}, fixup.get(),
                 TileX::map(x.data, X, p.K, x.ld, FETCH), TileY::map(y.data, Y, p.K, y.ld, FETCH));
  };
  // B is K-major where it is transposed, A where it is not.
  with_majors(p, [&](auto a, auto b) { swapped ? start(b, a) : start(a, b); });
}

template <class T>
const Variant<T> VARIANTS[] = {
    {"64x16", launch<T, 64, 16, 20>},    {"64x32", launch<T, 64, 32, 16>},
    {"64x64", launch<T, 64, 64, 10>},    {"64x128", launch<T, 64, 128, 6>},
    {"128x128", launch<T, 128, 128, 5>}, {"128x256", launch<T, 128, 256, 4>},
};

static_assert(std::size(VARIANTS<half>) == std::size(STREAM_K_TILES), "in the same order");

template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const Estimate best = best_stream_k_tile(problem_of(p), arch, variant);
  // Wider results are other rungs': their tiles fetch less for each.
  const bool narrow = variant != ANY_VARIANT || std::min(p.M, p.N) <= 512;
  return {.variant = best.variant, .makespan = narrow ? best.us : NEVER};
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  return std::string(p.M <= p.N ? "C^T" : "C") + " in tiles of " + VARIANTS<T>[plan.variant].name +
         ", estimated " + std::to_string(int64_t(plan.makespan + 0.5)) + " us in equal shares on " +
         std::to_string(plan.sms) + " SMs";
}

const Registration rung({.prev = "v25",
                         .idea = "narrow stream-K: every SM fetches as many bytes",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
