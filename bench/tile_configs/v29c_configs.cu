// v29c configs: v29's kernel in the configurations that tile languages publish, to be tuned over.
//
// Not part of the ladder, and not of the build: `cmake --build build --target tile_configs`. A variant
// is BM x BN x BK, warps and stages. Operands are as stored.
#include <string>

#include "rung.h"
#include "tile/tile.cuh"

namespace {
using namespace gemm;

constexpr int GROUP_M = 8;

template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_v29c(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();
      cta.pipeline(p.k_tiles, acc,
                   [&](auto& sum, int k) { dot(load(p.A, m, k), load(p.B, k, n), sum); });
      const auto c = load(p.C, m, n, p.beta != 0);
      cta.store(p.C, m, n, activate(p.alpha * acc + p.beta * c, p.activation, p.slope));
    }
  });
}

// How many of so many warps stand one below the other: the tile of a warp is as square as it can be.
constexpr int warp_rows(int bm, int bn, int warps) {
  int best = 0, least = bm + bn + 1;
  for (int rows = 1; rows <= warps; rows *= 2) {
    const int wm = bm / rows, wn = bn / (warps / rows);
    if (wm % 16 != 0 || wn % 16 != 0 || wm + wn >= least) continue;
    best = rows;
    least = wm + wn;
  }
  return best;
}
static_assert(warp_rows(128, 128, 4) == 2 && warp_rows(64, 128, 4) == 1);
static_assert(warp_rows(128, 32, 4) == 4 && warp_rows(128, 256, 8) == 2);

// Two kernels: for aligned rows, and for any.
template <class Tiles, class T>
void launch(const GemmArgs<T>& p, const Plan&, Stream stream) {
  using Aligned =
      typename Tiles::template Make<T, tile::Access::k_major, tile::Access::mn_major>::Loop;
  using Any = typename Tiles::template Any<T>;
  if (all_aligned(p))
    tile::launch<Aligned>(tile::problem(p), GROUP_M, stream, gemm_v29c<Aligned>);
  else
    tile::launch<Any>(tile::problem(p), GROUP_M, stream, gemm_v29c<Any>);
}
template <int BM, int BN, int BK, int WARPS, int STAGES>
constexpr auto mma = [] {
  constexpr int ROWS = warp_rows(BM, BN, WARPS), COLS = WARPS / ROWS;
  return launch<tile::MmaSync<BM, BN, BK, STAGES, BM / ROWS, BN / COLS>, half>;
}();

// With three stages and with four, but for the largest: with four it spills.
const Variant<half> HALVES[] = {
    {"128x128x32 w4 s3", mma<128, 128, 32, 4, 3>}, {"128x128x32 w4 s4", mma<128, 128, 32, 4, 4>},
    {"64x128x32 w4 s3", mma<64, 128, 32, 4, 3>},   {"64x128x32 w4 s4", mma<64, 128, 32, 4, 4>},
    {"128x64x32 w4 s3", mma<128, 64, 32, 4, 3>},   {"128x64x32 w4 s4", mma<128, 64, 32, 4, 4>},
    {"64x64x64 w4 s3", mma<64, 64, 64, 4, 3>},     {"64x64x64 w4 s4", mma<64, 64, 64, 4, 4>},
    {"32x128x64 w4 s3", mma<32, 128, 64, 4, 3>},   {"32x128x64 w4 s4", mma<32, 128, 64, 4, 4>},
    {"128x32x64 w4 s3", mma<128, 32, 64, 4, 3>},   {"128x32x64 w4 s4", mma<128, 32, 64, 4, 4>},
    {"64x32x64 w2 s3", mma<64, 32, 64, 2, 3>},     {"64x32x64 w2 s4", mma<64, 32, 64, 2, 4>},
    {"32x64x64 w2 s3", mma<32, 64, 64, 2, 3>},     {"32x64x64 w2 s4", mma<32, 64, 64, 2, 4>},
    {"128x256x64 w8 s3", mma<128, 256, 64, 8, 3>}, {"32x32x32 w1 s3", mma<32, 32, 32, 1, 3>},
    {"32x32x32 w1 s4", mma<32, 32, 32, 1, 4>},     {"32x32x32 w4 s3", mma<32, 32, 32, 4, 3>},
    {"32x32x32 w4 s4", mma<32, 32, 32, 4, 4>},
};
const Variant<float> FLOATS[] = {
    {"32x32x32 w1 s3", launch<tile::Ffma<32, 32, 32, 3, 32, 32>, float>},
    {"64x64x16 w2 s3", launch<tile::Ffma<64, 64, 16, 3, 32, 64>, float>},
    {"128x128x16 w8 s3", launch<tile::Ffma<128, 128, 16, 3, 32, 64>, float>},
};

template <class T>
Plan plan(const FusedArgs<T>&, const Arch&, int variant) {
  return {.variant = variant == ANY_VARIANT ? 0 : variant};
}
template <class T>
std::string explain(const GemmArgs<T>&, const Plan&) {
  return "the first; --tune first measures which is the fastest";
}

const Registration rung({.idea = "tiles: published configurations", .needs = {.sm = 80}},
                        {f32(FLOATS, {plan<float>, explain<float>, false}),
                         f16(HALVES, {plan<half>, explain<half>, false})});

}  // namespace
