// Which block computes which tile of C, and when.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// L2 rasterisation: where a block works. Tiles are counted in groups of GROUP_M rows of tiles,
// within a group column by column; the last group may have fewer rows. Taught in v17.
struct TileIndex {
  int m, n;
};
template <int GROUP_M>
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n) {
  const int group = tile / (GROUP_M * tiles_n), within = tile % (GROUP_M * tiles_n);
  const int left = tiles_m - group * GROUP_M, rows = left < GROUP_M ? left : GROUP_M;
  return {group * GROUP_M + within % rows, within / rows};
}

GEMM_BUILD_NAMESPACE_END
