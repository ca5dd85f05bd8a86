// Estimated microseconds of the FP32 kernels, for each of their tiles. Host only. Their constants are
// an architecture's (plan/arch.h).
#pragma once

#include "plan/arch.h"
#include "plan/plan.h"
#include "plan/problem.h"

namespace gemm {

// Split-K tiles, for small results.
struct SplitTile {
  int bm, bn, bk;
  int most_splits;  // of K, a CTA each: 1 to 8 in a cluster, then 16, 24, ...
};
inline constexpr SplitTile SPLIT_TILES[] = {
    {16, 64, 64, 32}, {64, 16, 64, 32}, {32, 32, 64, 32}, {32, 64, 64, 8},
    {64, 64, 32, 8},  {64, 128, 16, 8}, {128, 64, 16, 8},
};

// Calls visit(variant, tile, splits) for each variant: tile by tile, and of a tile by splits of K.
template <class Visit>
constexpr void for_each_split(Visit&& visit) {
  int variant = 0;
  for (const SplitTile& tile : SPLIT_TILES)
    for (int splits = 1; splits <= tile.most_splits;
         splits += splits < MAX_CLUSTER ? 1 : MAX_CLUSTER)
      visit(variant++, tile, splits);
}
constexpr int split_variants() {
  int n = 0;
  for_each_split([&](int, const SplitTile&, int) { ++n; });
  return n;
}

// Whether the operands that are not K-major have rows of whole groups of 16 bytes.
bool whole_groups(const PlannedProblem& p);

struct Estimate {
  int variant = 0, splits = 1;
  double us = 0;
};
// The fastest variant, or the one asked for.
Estimate best_split_tile(const PlannedProblem& p, const Arch& arch, int only = ANY_VARIANT);

// Tiles of whole K, for large results.
struct WholeTile {
  int bm, bn, bk;
  double tflops;    // of a full card
  int per_sm = 1;   // CTAs that share an SM
  int cluster = 1;  // CTAs that share a tile
  bool stream_k = false;
};
inline constexpr WholeTile WHOLE_TILES[] = {
    {128, 256, 16, 54.5},   {128, 256, 16, 53.8, 1, 1, true}, {64, 64, 32, 48.5, 2},
    {64, 64, 32, 41, 1, 2}, {96, 96, 32, 43.5, 1, 2},
};

// Rows or columns too few for another row or column of large tiles: they get thin ones.
int thin_edge(int size, int tile);

double whole_tile_us(const PlannedProblem& p, const Arch& arch, const WholeTile& tile);

}  // namespace gemm
