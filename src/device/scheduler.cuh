// Rasterisation: which CTA computes which tile of C. Taught in v17.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Coordinates of the tile-th tile, in raster groups of `group_m` rows of tiles. Within a group
// tiles are counted column by column; the last group may have fewer rows. `across`: 1, or 2 where two
// columns are counted together, row by row. An odd column is counted alone.
struct TileIndex {
  int m, n;
};
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n,
                                                     int group_m, int across = 1) {
  const int group = tile / (group_m * tiles_n), within = tile % (group_m * tiles_n);
  const int left = tiles_m - group * group_m, rows = left < group_m ? left : group_m;
  const int first = within / (rows * across) * across, nth = within - first * rows;
  const int wide = first + across <= tiles_n ? across - 1 : 0;  // 1: two columns
  return {group * group_m + (nth >> wide), first + (nth & wide)};
}
// The order in which CTAs take tiles: see grouped_tile.
struct Raster {
  int group_m, across = 1;
};
// Rows of tiles a raster group: at most group_m, and nearly the same in all groups. 33 rows in
// groups of 16, 16 and 1 would make the last group read all of B for one row.
__host__ __device__ constexpr int raster_group_size(int tiles_m, int group_m) {
  return cdiv(tiles_m, cdiv(tiles_m, group_m));
}
template <int GROUP_M>
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n) {
  return grouped_tile(tile, tiles_m, tiles_n, GROUP_M);
}

GEMM_BUILD_NAMESPACE_END
