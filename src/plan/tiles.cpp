#include "plan/tiles.h"

#include <fmt/format.h>

#include <algorithm>

namespace gemm {

TileChoice choose_tile(int M, int N, int K, const Costs::Tile* tiles, int count, int sms,
                       double fixup_k, int index, int products, double epilogue) {
  TileChoice best;
  const auto parts = [](int size, int tile) { return (int64_t{size} + tile - 1) / tile; };
  for (int i = 0; i < count; ++i) {
    if (index != ANY_VARIANT && i != index) continue;
    const auto [bm, bn, cost, shared_waves] = tiles[i];
    const int64_t number = parts(M, bm) * parts(N, bn) * products;
    const bool cut = shared_waves > 0 && number > sms && number % sms != 0;
    const double waves = cut ? double(number) / sms : double((number + sms - 1) / sms);
    const int fixups = epilogue > 0 ? 2 : 1;
    const double shared = cut ? shared_waves + fixups * fixup_k / std::max(K, 1) : 0;
    const double makespan = cost * (waves + shared + epilogue) * bm * bn;
    if (best.tiling.bm > 0 && makespan >= best.makespan) continue;
    best = {i, makespan, {.bm = bm, .bn = bn, .cut = cut, .tiles = number, .waves = waves}};
  }
  return best;
}

std::string explain(const Tiling& t) {
  return fmt::format("{} {} of {} x {} in {:.{}f} {}{}{}", t.tiles, t.tiles == 1 ? "tile" : "tiles",
                     t.bm, t.bn, t.waves, t.cut ? 1 : 0, t.waves == 1 ? "wave" : "waves",
                     t.cluster > 1 ? " of clusters" : "",
                     t.pairs == Pairs::none      ? ""
                     : t.pairs == Pairs::columns ? ", in pairs one above the other"
                                                 : ", in pairs side by side");
}

}  // namespace gemm
