// v25 split K: few rows of C, many SMs.
//
// before: v24's tiles are at least 64 x 128. Where C has 16 rows, three quarters of a tile are
//         multiplied in vain; 4096 columns make 32 tiles, and 100 SMs fetch nothing, although all
//         that counts is how fast B comes from memory
// idea:   compute C^T where C is flat: the long side becomes wgmma's 64 rows, the short one its
//         columns, of which 16 are enough; and two blocks of a cluster share a tile, each with half
//         of K. They add up their parts through each other's shared memory
// watch:  bytes in flight, and how soon a stage is free: where a tile has 64 rows, each consumer
//         takes every other k-tile. FETCH from memory: rows have 128 bytes, so that half of 256
//         would be another CTA's
// needs:  sm_90a; operands whose rows TMA cannot address (multiples of 16 bytes) are copied first
//
//   role        threads   waits for      then                         and tells
//   producer    one       empty[stage]   loads a k-tile of its half   full[stage], by TMA's bytes
//   consumers   2 x 128   full[stage]    4 wgmma, every other k-tile  empty[stage], a k-tile later
//               together  the cluster    add half a tile, store it
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes
//   empty[stage]   1 arrival of each consumer that reads it: 2, or 1 where they share K
//
//   CTA 0    | first half of K  ... | sums to both CTAs | cluster's barrier | add, store half
//   CTA 1    | second half of K ... | sums to both CTAs | cluster's barrier | add, store half
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/vec.cuh"
#include "device/wgmma_epilogue.cuh"
#include "rung.h"

namespace {
using namespace gemm;

constexpr int MMA_X = 64, BK = 64;     // rows of one wgmma; depth of a k-tile
constexpr int SPLIT = 2, FETCH = 128;  // blocks a cluster, each with its part of K; see watch
constexpr int CONSUMERS = 2, WORKERS = CONSUMERS * 128;  // warpgroups, their threads
constexpr int THREADS = WORKERS + 32;                    // and the producer's warp

template <class TileX, class TileY, int STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t X[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
  uint8_t Y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BK, BY)
  // (PARTS, UNITS, 128): what all consumers of the cluster have of this CTA's half of the tile
  Vec<float> parts[WORKERS * TileY::EXTENT / 8];
  uint64_t full[STAGES], empty[STAGES];
};

// With x along the tile's long side and y along the short one: X is A, and Y is B, or SWAPPED.
template <class T, Major X_MAJOR, Major Y_MAJOR, bool SWAPPED, int BX, int BY, int STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_v25(GemmArgs<T> p, const __grid_constant__ TensorMap map_x,
             const __grid_constant__ TensorMap map_y) {
  using TileX = OperandTile<T, BX, X_MAJOR>;
  using TileY = OperandTile<T, BY, Y_MAJOR>;
  constexpr int K_GROUPS = CONSUMERS * MMA_X / BX;  // intra-CTA split-K: consumers of the same rows
  static_assert(STAGES % K_GROUPS == 0, "a buffer's phases are all waited for by one consumer");
  // Half a tile's sums by a thread: VECTORS of four for 64 rows, UNITS for all, of PARTS of K.
  constexpr int VECTORS = BY / SPLIT / 8, UNITS = VECTORS * BX / MMA_X, PARTS = SPLIT * K_GROUPS;
  const int tid = threadIdx.x, rank = cluster_rank(), tile = blockIdx.x / SPLIT;
  const int tiles_x = cdiv(SWAPPED ? p.N : p.M, BX), k_tiles = cdiv(p.K, BK);
  const int x0 = tile % tiles_x * BX, y0 = tile / tiles_x * BY;
  const int begin = int64_t{k_tiles} * rank / SPLIT, end = int64_t{k_tiles} * (rank + 1) / SPLIT;

  auto& s = *static_cast<Shared<TileX, TileY, STAGES>*>(dynamic_shared());
  if (tid == 0) init_pipeline<STAGES>(s.full, s.empty, CONSUMERS / K_GROUPS);
  __syncthreads();
  cluster_arrive();
  grid_launch_dependents();

  PipelineState<STAGES> state;
  float acc[BY / 2] = {};
  const int wg = warpgroup(), k_group = wg % K_GROUPS;
  const int rows = wg / K_GROUPS;  // which 64 of the tile's rows
  if (tid >= WORKERS) {
    // The producer.
    grid_dependency_wait();  // after the tile's coordinates have been computed
    if (elect_one())
      produce<TileX, TileY>(s.X[0], s.Y[0], s.full, s.empty, state, map_x, map_y, x0, y0, begin,
                            end);
  } else {
    // A consumer: every k-tile, or every other.
    int last = 0;
    state.skip(k_group);
    for (int k_tile = begin + k_group; k_tile < end; k_tile += K_GROUPS, state.skip(K_GROUPS)) {
      const int stage = state.stage;
      mbarrier_wait(&s.full[stage], state.phase);
      multiply_k_tile<TileX, TileY>(acc, s.X[stage], s.Y[stage], rows * MMA_X);
      wgmma_wait<1>();
      if (tid % 128 == 0 && k_tile >= begin + K_GROUPS) mbarrier_arrive(&s.empty[last]);
      last = stage;
    }
    wgmma_wait<0>(acc);
  }

  // [region idea]
  const auto part = [&](int i, int unit) { return s.parts + (i * UNITS + unit) * 128 + tid % 128; };
  cluster_wait();  // the other block has begun: its shared memory is there
  if (tid < WORKERS)
#pragma unroll
    for (int i = 0; i < BY / 8; ++i) {  // each block is sent its half
      Vec<float> four = {};
      for (int e = 0; e < 4; ++e) four.set(e, acc[i * 4 + e]);
      *map_shared(part(rank * K_GROUPS + k_group, rows * VECTORS + i % VECTORS), i / VECTORS) =
          four;
    }
  cluster_arrive();
  cluster_wait();  // all parts have come
  if (tid < WORKERS)
    for (int unit = wg; unit < UNITS; unit += CONSUMERS) {
      float sums[4] = {};
      for (int from = 0; from < PARTS; ++from)
        for (int e = 0; e < 4; ++e) sums[e] += (*part(from, unit))[e];
      const int x = x0 + unit / VECTORS * MMA_X + tid % 128 / 32 * 16 + tid % 32 / 4;
      const int y = y0 + (rank * VECTORS + unit % VECTORS) * 8 + tid % 4 * 2;
      store_each<4>(p, sums, [&](int e) {
        const int along = x + e / 2 * 8, across = y + e % 2;
        return SWAPPED ? TileIndex{across, along} : TileIndex{along, across};
      });
    }
  // [/region idea]
}

template <class T, bool SWAPPED, int BX, int BY, int STAGES>
void launch(const GemmArgs<T>& p, const Plan&, Stream stream) {
  const int X = SWAPPED ? p.N : p.M, Y = SWAPPED ? p.M : p.N;
  const int64_t grid = int64_t{cdiv(X, BX)} * cdiv(Y, BY) * SPLIT;
  const TmaOperands<T> in(p, stream);
  const Repacked<T>&x = SWAPPED ? in.B : in.A, &y = SWAPPED ? in.A : in.B;
  with_majors(p, [&](auto a, auto b) {
    constexpr Major X_MAJOR = SWAPPED ? b() : a(), Y_MAJOR = SWAPPED ? a() : b();
    using TileX = OperandTile<T, BX, X_MAJOR>;
    using TileY = OperandTile<T, BY, Y_MAJOR>;
    gemm::launch(gemm_v25<T, X_MAJOR, Y_MAJOR, SWAPPED, BX, BY, STAGES>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileX, TileY, STAGES>), .cluster = SPLIT, .pdl = true},
                 stream, p, TileX::map(x.data, X, p.K, x.ld, FETCH),
                 TileY::map(y.data, Y, p.K, y.ld, FETCH));
  });
}

template <class T>
const Variant<T> VARIANTS[] = {{"64 rows x 16 s16", launch<T, false, 64, 16, 16>},
                               {"64 rows x 64 s10", launch<T, false, 64, 64, 10>},
                               {"128 rows x 64 s8", launch<T, false, 128, 64, 8>},
                               {"64 columns x 16 s16", launch<T, true, 64, 16, 16>},
                               {"64 columns x 64 s10", launch<T, true, 64, 64, 10>},
                               {"128 columns x 64 s8", launch<T, true, 128, 64, 8>}};

template <class T>
Plan plan(const GemmArgs<T>& p, const Arch& arch, int variant) {
  const int flat = p.M <= p.N, x = std::max(p.M, p.N), y = std::min(p.M, p.N);
  const auto fit = [&](int by) { return int64_t{cdiv(x, 64)} * cdiv(y, by) * SPLIT <= arch.sms; };
  const int width = y <= 16 || fit(16) ? 0 : fit(64) ? 1 : 2;
  // What is flat, or so small that it is less than a wave, no other kernel shares out as well. For
  // the rest these tiles read too much.
  const bool best = y <= 64 || fit(16);
  return {.variant = variant == ANY_VARIANT ? 3 * flat + width : variant,
          .makespan = best ? 1 : NEVER};
}

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  const char* const tile[] = {"64 x 16", "64 x 64", "128 x 64"};
  return std::string(plan.variant >= 3 ? "C^T" : "C") + " in tiles of " + tile[plan.variant % 3] +
         ", K in " + std::to_string(SPLIT) + " parts; C has " + std::to_string(std::min(p.M, p.N)) +
         (p.M <= p.N ? " rows" : " columns");
}

const Registration rung({.prev = "v24",
                         .idea = "split K: two blocks a tile, C^T where C is flat",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain})});

}  // namespace
