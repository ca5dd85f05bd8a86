// Variants that are tiles times splits of K. Host only.
#pragma once

#include <cmath>
#include <cstddef>

#include "plan/plan.h"

namespace gemm {

struct Estimate {
  int variant = 0;  // index in its table
  double us = 0;
};

// Into how many parts a tile's variants cut K: 1, 2, 4, ... or 1, 2, 3, ...
enum class Splits { powers_of_two, all };

// Calls visit(variant, tile, splits) for each variant of a table: tile by tile, with at most
// tile.most_splits splits of K.
template <class Tile, size_t N, class Visit>
constexpr void for_each_split(const Tile (&tiles)[N], Visit&& visit) {
  int variant = 0;
  for (const Tile& tile : tiles)
    for (int splits = 1; splits <= tile.most_splits;
         splits += tile.splits == Splits::all ? 1 : splits)
      visit(variant++, tile, splits);
}

template <class Tile, size_t N>
constexpr int count_splits(const Tile (&tiles)[N]) {
  int n = 0;
  for_each_split(tiles, [&](int, const Tile&, int) { ++n; });
  return n;
}

// The fastest by us(tile, splits), or the one asked for.
template <class Tile, size_t N, class Us>
Estimate best_split(const Tile (&tiles)[N], int only, Us&& us) {
  Estimate best{0, INFINITY};
  for_each_split(tiles, [&](int variant, const Tile& tile, int splits) {
    if (only != ANY_VARIANT && only != variant) return;
    if (const double time = us(tile, splits); time < best.us) best = {variant, time};
  });
  return best;
}

}  // namespace gemm
