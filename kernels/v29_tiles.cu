// v29 tiles: a GEMM in whole tiles; the layer in src/tile decides how they are multiplied.
//
// before: v24 names warpgroups, barriers, phases, descriptors and swizzles; v17 is another program
//         for another GPU, v12 a third for FP32, and each knows one or four layouts of A and B
// idea:   write what becomes of tiles, once. The body is compiled for each role: to the thread that
//         loads, dot is a copy; to those that multiply, it is wgmma, mma.sync or multiply-adds.
//         Arithmetic on tiles is computed when they are stored, a part at a time
// watch:  the same instructions as v24's, v17's and v12's (SASS); GROUP_M is a --variant
// needs:  sm_80; wgmma sm_90a; operands that TMA cannot address are copied first, as for v24
#include <string>

#include "plan/tiles.h"
#include "rung.h"
#include "tile/compiled.cuh"

namespace {
using namespace gemm;

// [region idea]
// [region kernel]
template <class Loop>
__global__ void __launch_bounds__(Loop::THREADS, Loop::CTAS)
    gemm_v29(const __grid_constant__ tile::Gemm<Loop> p) {
  Loop::run([&](auto& cta) {
    for (const auto [m, n] : cta.tiles(p.C, p.group_m)) {
      auto acc = cta.zeros();  // (BM, BN)
      cta.pipeline(p.k_tiles, acc, [&](auto& sum, int k) {
        dot(load(p.A, m, k), load(p.B, k, n), sum);  // (BM, BK), (BK, BN)
      });
      const auto c = load(p.C, m, n, p.beta != 0);  // zeros, unread, where that is false
      cta.store(p.C, m, n, activate(p.alpha * acc + p.beta * c, p.activation, p.slope));
    }
  });
}
// [/region kernel]

template <class Tiles, int GROUP_M, class T>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  tile::launch<Tiles>("gemm_v29", p, GROUP_M, plan.ctas, stream,
                      [](auto loop) { return gemm_v29<decltype(loop)>; });
}
// [/region idea]

using Wide = tile::Wgmma<128, 192, 5, 1>;
using Square = tile::Wgmma<128, 128, 6>;
using Small = tile::Wgmma<64, 128, 8>;
using Ampere = tile::MmaSync<128, 256, 32, 4>;

bool on_hopper(const GemmArgs<half>&) { return tile::has_wgmma(); }
const Variant<half> HALVES[] = {
    {"wgmma 128x192 g16", launch<Wide, 16, half>, on_hopper},
    {"wgmma 128x128 g16", launch<Square, 16, half>, on_hopper},
    {"wgmma 64x128 g16", launch<Small, 16, half>, on_hopper},
    {"mma.sync 128x256 g8", launch<Ampere, 8, half>},
    {"wgmma 128x192 g1", launch<Wide, 1, half>, on_hopper},
    {"wgmma 128x192 g8", launch<Wide, 8, half>, on_hopper},
};
const Variant<float> FLOATS[] = {
    {"ffma 128x128 g8", launch<tile::Ffma<128, 128, 16, 3>, 8, float>},
    {"ffma 64x64 w4 g8", launch<tile::Ffma<64, 64, 16, 3, 32, 32>, 8, float>},  // four warps
    {"ffma 128x128 g1", launch<tile::Ffma<128, 128, 16, 3>, 1, float>},
};

// Tile sizes of the variants above.
struct Size {
  int bm, bn;
};
constexpr Size SIZES[] = {{128, 192}, {128, 128}, {64, 128}, {128, 256}, {128, 192}, {128, 192}};
constexpr Size FLOAT_SIZES[] = {{128, 128}, {64, 64}, {128, 128}};

Plan with_size(int M, int N, int sms, int variant, Size size) {
  const int64_t tiles = int64_t{cdiv(M, size.bm)} * cdiv(N, size.bn);
  Plan plan{.variant = variant};
  plan.keep(
      Tiling{.bm = size.bm, .bn = size.bn, .tiles = tiles, .waves = double(cdiv(int(tiles), sms))});
  return plan;
}

// The wgmma tile that fills the last wave best; without wgmma the one of mma.sync. The costs are
// read off an H200's measurements at 512 to 16384.
constexpr TileCost WGMMA_TILES[] = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.15}};
Plan plan_halves(const FusedArgs<half>& p, const Arch& arch, int variant) {
  constexpr int MMA_SYNC = 3;
  if (variant == ANY_VARIANT)
    variant = tile::has_wgmma()
                  ? choose_tile(p.M, p.N, WGMMA_TILES, std::size(WGMMA_TILES), arch.sms).index
                  : MMA_SYNC;
  return with_size(p.M, p.N, arch.sms, variant, SIZES[variant]);
}
// The part of the GPU's time in which SMs have a tile, all SMs being given the same number.
double utilization(int M, int N, int sms, Size size) {
  const int64_t tiles = int64_t{cdiv(M, size.bm)} * cdiv(N, size.bn);
  const int64_t waves = std::max<int64_t>(1, (tiles + sms - 1) / sms);
  return double(tiles) / double(waves * sms);
}
// A small tile's speed, as a part of a large one's: measured on an H200 at 2048, where both fill
// the GPU (tiles_f32_variants.json).
constexpr double SMALL_TILE_SPEED = 0.86;
Plan plan_floats(const FusedArgs<float>& p, const Arch& arch, int variant) {
  constexpr int LARGE = 0, SMALL = 1;
  if (variant == ANY_VARIANT)
    variant = utilization(p.M, p.N, arch.sms, FLOAT_SIZES[SMALL]) * SMALL_TILE_SPEED >
                      utilization(p.M, p.N, arch.sms, FLOAT_SIZES[LARGE])
                  ? SMALL
                  : LARGE;
  return with_size(p.M, p.N, arch.sms, variant, FLOAT_SIZES[variant]);
}

template <class T>
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return gemm::explain(plan.kept<Tiling>());
}

const Registration rung({.prev = "v24",
                         .idea = "tiles: the GEMM in 20 lines, over a tile layer",
                         .needs = {.sm = 80, .transposed = true}},
                        {f32(FLOATS, {plan_floats, explain, false}),
                         f16(HALVES, {plan_halves, explain, false})});

}  // namespace
