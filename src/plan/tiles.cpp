#include "plan/tiles.h"

#include <fmt/format.h>

namespace gemm {

TileChoice choose_tile(int M, int N, const Costs::Tile* tiles, int count, int sms, int index,
                       int products, double epilogue) {
  TileChoice best;
  const auto parts = [](int size, int tile) { return (int64_t{size} + tile - 1) / tile; };
  for (int i = 0; i < count; ++i) {
    if (index != ANY_VARIANT && i != index) continue;
    const auto [bm, bn, cost] = tiles[i];
    const int64_t number = parts(M, bm) * parts(N, bn) * products;
    const double waves = double((number + sms - 1) / sms);
    const double makespan = cost * (waves + epilogue) * bm * bn;
    if (best.tiling.bm > 0 && makespan >= best.makespan) continue;
    best = {i, makespan, {.bm = bm, .bn = bn, .tiles = number, .waves = waves}};
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
