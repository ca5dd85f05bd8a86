// v13 tuned FFMA: a tile for every shape, and no idle SM in the last wave.
//
// before: v12 computes a tile of 128 x 128 a CTA: 4096 x 4096 makes 1024 tiles, 7.8 waves on 132
//         SMs in the time of 8; 2304 x 2304 makes 2.5 waves in the time of 3, and 512 fills 16 SMs
// idea:   stream-K: the tiles that fill no wave are cut along K, so that the SMs without a tile
//         compute a share of each. Small problems take small tiles, whose K is shared out among
//         groups of warps and the two blocks of a cluster
// watch:  the kernels of a call overlap: each begins as SMs become free, and ends after the one
//         before; --tune measures every variant on the card, --explain says which runs and why
// needs:  sm_80, clusters sm_90; rows that are not whole aligned 16-byte groups are repacked first,
//         and a transposed B is transposed: read as it is, it costs a fifth of the time
#include <string>

#include "device/dynamic_shared.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/repack.cuh"
#include "engine/problem_of.h"
#include "plan/ffma.h"
#include "rung.h"
#include "v13_ffma/ffma_loop.cuh"
#include "v13_ffma/transposed_copy.cuh"

namespace {
using namespace gemm;

// CLUSTER CTAs compute a tile by split-K, each an equal share of its k-tiles and of the stores.
template <class Loop, int CLUSTER>
__global__ void __launch_bounds__(Loop::Tile::THREADS, Loop::Tile::BLOCKS)
    gemm_v13(GemmArgs<float> p, bool aligned_c) {
  using Tile = typename Loop::Tile;
  grid_launch_dependents();
  const int rank = CLUSTER > 1 ? int(cluster_rank()) : 0;
  const TileIndex at = Loop::place(p, blockIdx.x / CLUSTER);
  const int k_span = cdiv(cdiv(p.K, Tile::BK), CLUSTER) * Tile::BK, begin = rank * k_span;
  Vec<float>* const sums = static_cast<Vec<float>*>(dynamic_shared());
  Loop::sum(p, at.m, at.n, begin, p.K - begin > k_span ? begin + k_span : p.K, sums);
  grid_dependency_wait();  // so as to end after the kernel before
  Loop::template store<CLUSTER>(p, aligned_c, at.m, at.n, rank, sums);
}

// [region idea]
// CLUSTER blocks a tile; if STREAM, what fills no wave of it by stream-K. Unless `first`, it begins
// as SMs become free, and ends after the kernel before it.
template <class Tile, bool STREAM, int CLUSTER, bool A_K_MAJOR>
void launch_tiles(const GemmArgs<float>& p, bool aligned_c, Stream stream, bool first) {
  const int64_t tiles = int64_t{cdiv(p.M, Tile::BM)} * cdiv(p.N, Tile::BN);
  StreamK rest{};  // no tile
  if (STREAM) rest = StreamK::of(tiles, cdiv(p.K, Tile::BK), sm_count() * Tile::BLOCKS);
  const int64_t whole = tiles - rest.tiles;
  // Where the copies stand. The tile says it for A as stored; transposed: counted in SASS.
  constexpr bool LARGE = Tile::BM * Tile::BN >= 128 * 256;
  constexpr int COPY = A_K_MAJOR ? Tile::COPY : LARGE ? 2 : 4;
  constexpr int COMMIT = A_K_MAJOR ? Tile::COMMIT : 12;
  using Loop = FfmaLoop<Tile, A_K_MAJOR, COPY, COMMIT>;
  gemm::launch(gemm_v13<Loop, CLUSTER>, whole * CLUSTER, dim3(Tile::THREADS),
               {.smem = Tile::SMEM, .cluster = CLUSTER, .pdl = !first && has_clusters()}, stream, p,
               aligned_c);
  if constexpr (STREAM)
    launch_stream_k<FfmaLoop<Tile, A_K_MAJOR, 0, 10>>(p, aligned_c, rest, stream,
                                                      first && whole == 0);
}
// [/region idea]

using Row = Tiling<32, 64, 64, 8, 4, 3, 4>;     // for edges of a few rows
using Column = Tiling<64, 32, 64, 8, 4, 3, 4>;  // and of a few columns
using ThinRow = Tiling<16, 64, 64, 4, 4, 3, 4>;
using ThinColumn = Tiling<64, 16, 64, 4, 4, 3, 4, 1, 2, 10, 8>;

template <class Tile, bool STREAM, int CLUSTER, bool A_K_MAJOR>
void launch_parts(GemmArgs<float> p, bool aligned_c, Stream stream) {
  const bool thin =
      has_clusters();  // a cluster has an edge's tile; else the last tiles are cut off
  const int m = thin ? thin_edge(p.M, Tile::BM) : 0, n = thin ? thin_edge(p.N, Tile::BN) : 0;
  GemmArgs<float> row = p, column = p;
  row.M = m;
  row.A += (p.M - m) * (A_K_MAJOR ? p.lda : 1);
  row.C += (p.M - m) * p.ldc;
  p.M -= m;
  column.M = p.M;
  column.N = n;
  column.B += p.N - n;
  column.C += p.N - n;
  p.N -= n;
  const auto edge = [&]<class Thin>(Thin, const GemmArgs<float>& q) {  // or nothing: no tile
    launch_tiles<Thin, false, 2, A_K_MAJOR>(q, aligned_c, stream, false);
  };
  launch_tiles<Tile, STREAM, CLUSTER, A_K_MAJOR>(p, aligned_c, stream, true);
  m <= 16 ? edge(ThinRow{}, row) : edge(Row{}, row);
  n <= 16 ? edge(ThinColumn{}, column) : edge(Column{}, column);
}

template <class Tile, bool STREAM = false, int CLUSTER = 1>
void launch(const GemmArgs<float>& call, const Plan&, Stream stream) {
  const bool ta = call.op_a == Op::T, tb = call.op_b == Op::T;
  const TransposedCopy b(call.B, call.ldb, call.N, call.K, tb, stream);
  const RepackedPair<float> in(
      {call.A, ta ? call.K : call.M, ta ? call.M : call.K, call.lda},
      {tb ? b.data() : call.B, call.K, tb ? int(b.ld) : call.N, tb ? b.ld : call.ldb}, stream,
      /*whole_groups=*/true);
  GemmArgs<float> p = call;
  p.A = in.A.data;
  p.lda = in.A.ld;
  p.B = in.B.data;
  p.ldb = in.B.ld;
  if (p.K == 0) {  // copies of nothing want aligned rows too
    p.A = p.B = nullptr;
    p.lda = p.ldb = 0;
  }
  with_constant(!ta, [&](auto a_k_major) {
    launch_parts<Tile, STREAM, CLUSTER, a_k_major()>(p, has_aligned_c(p), stream);
  });
}

template <class Tile, int CLUSTER = 1>
bool fits(const GemmArgs<float>&) {
  return Tile::SMEM <= shared_memory_limit() && (CLUSTER == 1 || has_clusters());
}

using Large = Tiling<128, 256, 16, 8, 16, 4, 1, 1, 0, 12>;  // of 54 TFLOPS in whole waves
using Small = Tiling<64, 64, 32, 8, 8, 4, 4, 2>;            // four groups of warps share a k-tile
using Pair64 = Tiling<64, 64, 32, 8, 8, 4, 4, 1, 0>;  // two blocks share a tile: half of K each
using Pair96 = Tiling<96, 96, 32, 8, 12, 4, 4, 1, 2, 10, 4>;

const Variant<float> VARIANTS[] = {
    {"128x256x16 8x16", launch<Large>, fits<Large>},
    {"128x256x16 8x16 stream-K", launch<Large, true>, fits<Large>},
    {"64x64x32 8x8 groups 4", launch<Small>},
    {"64x64x32 8x8 groups 4 cluster 2", launch<Pair64, false, 2>, fits<Pair64, 2>},
    {"96x96x32 8x12 groups 4 cluster 2", launch<Pair96, false, 2>, fits<Pair96, 2>},
};
static_assert(std::size(VARIANTS) == std::size(WHOLE_TILES), "in the same order");

Plan plan(const FusedArgs<float>& p, const Arch& arch, int variant) {
  const PlannedProblem problem = problem_of(p);
  Plan best{.makespan = NEVER};
  for (int i = 0; i < int{std::size(VARIANTS)}; ++i) {
    const bool fits = VARIANTS[i].fits == nullptr || VARIANTS[i].fits(p);
    if (variant == ANY_VARIANT ? !fits : variant != i) continue;
    if (const double us = whole_tile_us(problem, arch, WHOLE_TILES[i]); us < best.makespan)
      best = {.variant = i, .makespan = us};
  }
  return best;
}

std::string explain(const GemmArgs<float>&, const Plan& plan) {
  return "estimated " + std::to_string(int64_t(plan.makespan + 0.5)) + " us on " +
         std::to_string(plan.sms) + " SMs";
}

const Registration rung({.prev = "v12",
                         .idea = "tuned FFMA: stream-K, and a tile for every shape",
                         .needs = {.sm = 80, .transposed = true}},
                        {f32(VARIANTS, {plan, explain})});

}  // namespace
