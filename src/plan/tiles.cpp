#include "plan/tiles.h"

#include <fmt/format.h>

namespace gemm {

TileChoice choose_tile(int M, int N, const TileCost* tiles, int count, int sms, int index,
                       int products) {
  TileChoice best;
  double least = NEVER;
  const auto parts = [](int size, int tile) { return (int64_t{size} + tile - 1) / tile; };
  for (int i = 0; i < count; ++i) {
    if (index != ANY_VARIANT && i != index) continue;
    const auto [bm, bn, cost] = tiles[i];
    const int64_t number = parts(M, bm) * parts(N, bn) * products;
    const double waves = double((number + sms - 1) / sms), makespan = cost * waves * bm * bn;
    if (best.tiling.bm > 0 && makespan >= least) continue;
    least = makespan;
    best = {i, {.bm = bm, .bn = bn, .tiles = number, .waves = waves}};
  }
  return best;
}

std::string explain(const Tiling& t) {
  return fmt::format("{} {} of {} x {} in {:.0f} {}{}{}", t.tiles, t.tiles == 1 ? "tile" : "tiles",
                     t.bm, t.bn, t.waves, t.waves == 1 ? "wave" : "waves",
                     t.pairs == Pairs::none      ? ""
                     : t.pairs == Pairs::columns ? ", in pairs one above the other"
                                                 : ", in pairs side by side",
                     t.b_stays ? ", B stays" : "");
}

}  // namespace gemm
