#include "plan/tiles.h"

#include <fmt/format.h>

namespace gemm {

Tiling tiling_of(int M, int N, int bm, int bn, int at_a_time, int products) {
  const auto parts = [](int size, int tile) { return (int64_t{size} + tile - 1) / tile; };
  const int64_t tiles = parts(M, bm) * parts(N, bn) * products;
  return {.bm = bm, .bn = bn, .tiles = tiles, .waves = double((tiles + at_a_time - 1) / at_a_time)};
}

TileChoice choose_tile(int M, int N, const TileCost* tiles, int count, int sms, int index,
                       int products) {
  TileChoice best;
  double least = NEVER;
  for (int i = 0; i < count; ++i) {
    if (index != ANY_VARIANT && i != index) continue;
    const auto [bm, bn, cost] = tiles[i];
    const Tiling tiling = tiling_of(M, N, bm, bn, sms, products);
    const double makespan = cost * tiling.waves * bm * bn;
    if (best.tiling.bm > 0 && makespan >= least) continue;
    least = makespan;
    best = {i, tiling};
  }
  return best;
}

std::string explain(const Tiling& t) {
  return fmt::format("{} {} of {} x {} in {:.0f} {}{}{}", t.tiles, t.tiles == 1 ? "tile" : "tiles",
                     t.bm, t.bn, t.waves, t.waves == 1 ? "wave" : "waves",
                     t.cluster > 1 ? " of clusters" : "",
                     t.pairs == Pairs::none      ? ""
                     : t.pairs == Pairs::columns ? ", in pairs one above the other"
                                                 : ", in pairs side by side");
}

}  // namespace gemm
