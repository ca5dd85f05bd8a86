// Rasterisation: which CTA computes which tile of C. Taught in v17.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Coordinates of the tile-th tile, in raster groups of `group_m` rows of tiles. Within a group
// tiles are counted column by column; the last group may have fewer rows.
struct TileIndex {
  int m, n;
};
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n,
                                                     int group_m) {
  const int group = tile / (group_m * tiles_n), within = tile % (group_m * tiles_n);
  const int left = tiles_m - group * group_m, rows = left < group_m ? left : group_m;
  return {group * group_m + within % rows, within / rows};
}
// Rows of tiles per raster group: at most group_m, and nearly the same in all groups. 33 rows in
// groups of 16, 16 and 1 would make the last group read all of B for one row.
__host__ __device__ constexpr int raster_group_size(int tiles_m, int group_m) {
  return cdiv(tiles_m, cdiv(tiles_m, group_m));
}
template <int GROUP_M>
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n) {
  return grouped_tile(tile, tiles_m, tiles_n, GROUP_M);
}

GEMM_BUILD_NAMESPACE_END
