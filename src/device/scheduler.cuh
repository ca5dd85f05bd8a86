// Which block computes which tile of C, and when.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// L2 rasterisation: where a block works. Tiles are counted in groups of `group_m` rows of tiles,
// within a group column by column; the last group may have fewer rows. Taught in v17.
struct TileIndex {
  int m, n;
};
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n,
                                                     int group_m) {
  const int group = tile / (group_m * tiles_n), within = tile % (group_m * tiles_n);
  const int left = tiles_m - group * group_m, rows = left < group_m ? left : group_m;
  return {group * group_m + within % rows, within / rows};
}
// Groups all alike, of at most group_m rows: where 33 rows make 16, 16 and 1, the last reads all of
// B for itself.
__host__ __device__ constexpr int raster_group_size(int tiles_m, int group_m) {
  return cdiv(tiles_m, cdiv(tiles_m, group_m));
}
template <int GROUP_M>
__host__ __device__ constexpr TileIndex grouped_tile(int tile, int tiles_m, int tiles_n) {
  return grouped_tile(tile, tiles_m, tiles_n, GROUP_M);
}

GEMM_BUILD_NAMESPACE_END
