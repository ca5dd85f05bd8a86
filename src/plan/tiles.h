// Which tile of several ends first. Taught in v27.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "plan/arch.h"
#include "plan/plan.h"

namespace gemm {

// Which tiles the two CTAs of a TPC's pair compute: any, one above the other, or side by side.
// Requests of both for the same lines reach L2 as one. Taught in v27.
enum class Pairs { none, columns, rows };

// How tiles cover C, and in how many waves an architecture's SMs compute them. b_stays: a CTA goes down
// columns of tiles, whose columns of B stay in shared memory. Taught in v27.
struct Tiling {
  int bm = 0, bn = 0;
  Pairs pairs = Pairs::none;
  bool b_stays = false;
  int64_t tiles = 0;
  double waves = 0;
};

// A tile, and what a result of it costs beside those of other tiles: larger ones read less for each.
struct TileCost {
  int bm, bn;
  double cost;
};
struct TileChoice {
  int index = 0;  // of the tiles
  Tiling tiling;
};

// The tile whose last SM ends first, for M x N results on `sms` SMs, or the one asked for. All waves but
// the last are full, and a tile that overlaps the edge takes as long as a whole one. The tiles of all
// `products` of a batch lie in the same waves.
TileChoice choose_tile(int M, int N, const TileCost* tiles, int count, int sms,
                       int index = ANY_VARIANT, int products = 1);

// "1024 tiles of 128 x 128 in 8 waves"
std::string explain(const Tiling& tiling);

}  // namespace gemm
