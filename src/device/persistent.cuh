// Persistent kernels: loops over tiles, and the choice of a CTA tile. Taught in v21.
#pragma once

#include <algorithm>
#include <type_traits>

#include "device/launch.h"
#include "device/scheduler.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// CTAs of a persistent kernel: one an SM. The simulator takes 4, so that small problems give each
// of them several tiles.
inline int persistent_blocks() { return current_arch().ctas; }

// The order in which CTAs take tiles: in raster groups of `group_m` rows of tiles, column by column.
// `across` = 2: two columns are counted together, row by row, and an odd one alone.
// `b_stays`: a CTA goes down columns of tiles instead, whose columns of B stay in shared memory.
struct Raster {
  int group_m, across = 1;
  bool b_stays = false;
};
__host__ __device__ constexpr TileIndex tile_in_order(int tile, int tiles_m, int tiles_n,
                                                      Raster raster) {
  const int group_m = raster.group_m, across = raster.across;
  const int group = tile / (group_m * tiles_n), within = tile % (group_m * tiles_n);
  const int left = tiles_m - group * group_m, rows = left < group_m ? left : group_m;
  const int first = within / (rows * across) * across, nth = within - first * rows;
  const int both = first + across <= tiles_n ? across - 1 : 0;  // 1: two columns
  return {group * group_m + (nth >> both), first + (nth & both)};
}

// The CTA's tiles where B stays: a range of all tiles, counted down one column after the other. A
// column has two or more.
//
// Ranges are of one length, or one tile shorter. A CTA does not begin with its first tile but with
// one at a multiple of that length in its column, if its range has one, and wraps around. So all
// CTAs are at few heights at any time: they share A in L2 and write the same rows of C.
struct TileRange {
  int tiles_m = 0, begin = 0, count = 0;  // tiles of a column; the range
  int nth = 0, m = 0, n = 0;              // the tile's place in it, and where it is in C

  TileRange() = default;
  GEMM_DEVICE TileRange(int first, int tiles_m, int tiles_n) : tiles_m(tiles_m) {
    const int tiles = tiles_m * tiles_n, ctas = gridDim.x, cta = blockIdx.x;
    const int shorter = tiles / ctas, more = tiles % ctas;
    begin = cta * shorter + (cta < more ? cta : more), count = shorter + (cta < more);
    const int longest = shorter + (more > 0), top = begin % tiles_m;
    const int height = cdiv(top, longest) * longest;
    nth = first + (height < tiles_m ? height : tiles_m) - top;
    find();
  }
  GEMM_DEVICE void advance(int by) {
    nth += by, m += by;
    if (m >= tiles_m) m -= tiles_m, ++n;
    if (nth >= count) find();
  }

 private:
  GEMM_DEVICE void find() {
    if (nth >= count) nth -= count;
    m = (begin + nth) % tiles_m, n = (begin + nth) / tiles_m;
  }
};

// Calls work(m, n) for every `step`-th tile from `first` on. If `work` takes a third argument, it is
// the number of tiles from this one to the last.
template <class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Raster raster,
                               Work&& work) {
  const int64_t tiles = int64_t{tiles_m} * tiles_n;
  TileRange range;
  int by = 0;
  if (raster.b_stays) {
    range = TileRange(first / int(gridDim.x), tiles_m, tiles_n);
    by = step / int(gridDim.x);
  }
  for (int64_t tile = first; tile < tiles; tile += step) {
    const auto [m, n] = raster.b_stays ? TileIndex{range.m, range.n}
                                       : tile_in_order(tile, tiles_m, tiles_n, raster);
    if (raster.b_stays) range.advance(by);
    if constexpr (std::is_invocable_v<Work, int, int>)
      work(m, n);
    else
      work(m, n, tiles - tile);
  }
}
// The tiles in raster groups of at most GROUP_M rows of tiles.
template <int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  const Raster raster{raster_group_size(tiles_m, GROUP_M)};
  for_each_tile(first, step, tiles_m, tiles_n, raster, work);
}

// What a launch computes: one product, the equal ones of a batch, or its groups (Batch::ends).
enum class Products { one, batch, groups };

// The rows of A and C that a product has: all, or those of a group.
struct RowRange {
  int first, end;
};

// The arguments of one product of a batch. Of one: those given, without a copy. Of groups: those
// given, ending with the group's last row.
template <Products PRODUCTS, class Args>
GEMM_DEVICE decltype(auto) args_of(const Args& p, int product, RowRange rows) {
  if constexpr (PRODUCTS == Products::batch) {
    return product_of(p, product);
  } else if constexpr (PRODUCTS == Products::groups) {
    Args group = p;
    group.M = rows.end;
    return group;
  } else {
    return (p);
  }
}

// Tiles of a batch, one product after the other: work(m, n, left, product, rows). `left` counts the
// cluster tiles from this one to the batch's last. All of them fit in an int. A single product is
// product 0 alone. Groups differ in their rows, and have raster groups of at most GROUP_M. Taught
// in docs/library.md.
template <Products PRODUCTS, int BM, int GROUP_M, class Args, class Work>
GEMM_DEVICE void for_each_tile_of_batch(const Args& p, int first, int step, int tiles_m,
                                        int tiles_n, Raster raster, Work&& work) {
  if constexpr (PRODUCTS == Products::batch) {
    const unsigned each = tiles_m * tiles_n, all = each * p.batch.count;
    for (unsigned tile = first; tile < all; tile += step) {
      const unsigned product = tile / each;
      const auto [row, n] = grouped_tile(tile - product * each, tiles_m, tiles_n, raster.group_m);
      work(row, n, int64_t{all - tile}, product, RowRange{0, p.M});
    }
  } else if constexpr (PRODUCTS == Products::groups) {
    int tile = first;  // counted from the group's first
    for (int group = 0, row_0 = 0; group < p.batch.count; ++group) {
      const int end = end_of_group(p.batch.ends[group], row_0, p.M), rows = cdiv(end - row_0, BM);
      for (; tile < rows * tiles_n; tile += step) {
        const auto [m, n] = grouped_tile(tile, rows, tiles_n, raster_group_size(rows, GROUP_M));
        // How many tiles are left nobody has counted: not one of the last, then.
        work(m, n, int64_t{1} << 32, group, RowRange{row_0, end});
      }
      tile -= rows * tiles_n;
      row_0 = end;
    }
  } else {
    for_each_tile(first, step, tiles_m, tiles_n, raster, [&](int m, int n, int64_t left) {
      work(m, n, left, 0, RowRange{0, p.M});
    });
  }
}

GEMM_BUILD_NAMESPACE_END
