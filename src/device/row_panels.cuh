// C's rows in row panels of two or three heights, so many that whole tiles fill all waves. Taught
// in v27.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/persistent.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// What row panels can be: columns of their tiles, rows, how many tiles may make a group, and how
// many row panels, one above the other, are a cluster's.
struct RowPanelShape {
  int width, shortest, tallest, group, cluster = 1;
};
constexpr RowPanelShape ROW_PANELS_128 = {128, 104, 192, 16};
// Of tiles that two consumers share. Taught in v27w.
constexpr RowPanelShape ROW_PANELS_256 = {256, 152, 192, 8};

// Which rows a tile has, and when. The first columns[0] columns of tiles are cut alike: into
// `count` row panels of 8 * rows_8[0] rows, of which the first more[0] are 8 rows higher. The other
// columns have a row panel more, or a stack of them, where so many tiles fill the waves: 8192 in
// columns of 128 are 44 columns of 43 row panels and 20 of 44, 21 times 132 tiles.
//
// As small as can be: 64 bytes more of parameters took a launch 0.05 to 0.2 us, 1.4 % at 1280.
struct RowPanels {
  int columns[2], count, rows_8[2], remainder[2];
  int16_t group[2];  // columns that are worked on together

  // Tiles, or stacks of so many: of a part's high row panels, or of its low ones.
  __host__ __device__ int64_t tiles(int part, bool is_short, int cluster) const {
    const int tall = cdiv(remainder[part], cluster), all = cdiv(count, cluster) + part;
    return int64_t{is_short ? all - tall : tall} * columns[part];
  }

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on. All high ones come before all
  // low ones: blocks that take tiles in turn then differ by 8 rows at any time, and at the end.
  // Where STACK row panels are a cluster's, these are stacks of tiles, and the work is on that of
  // `rank` in each; the last one may lie below C.
  template <int CLUSTER = 1, class Work>
  GEMM_DEVICE void for_each(int first, int step, int rank, Work&& work) const {
    // Tiles left where an area begins: high ones of the first columns and of the others, low ones.
    const int short1 = tiles(1, true, CLUSTER), short0 = short1 + tiles(0, true, CLUSTER);
    const int tall1 = short0 + tiles(1, false, CLUSTER), all = tall1 + tiles(0, false, CLUSTER);
    for (int left = all - first; left > 0; left -= step) {
      const bool is_short = left <= short0, second = left <= (is_short ? short1 : tall1);
      const int nth = (is_short ? (second ? short1 : short0) : (second ? tall1 : all)) - left;
      const auto of = [&](const auto(&parts)[2]) -> int { return second ? parts[1] : parts[0]; };
      const int tall_rows = cdiv(of(remainder), CLUSTER), rows = cdiv(count, CLUSTER) + second;
      const auto [x, row] =
          grouped_tile(nth, of(columns), is_short ? rows - tall_rows : tall_rows, of(group));
      const int y = (is_short ? row + tall_rows : row) * CLUSTER + rank;
      const int m = y < of(remainder) ? y * (of(rows_8) + 1) : y * of(rows_8) + of(remainder);
      work((second ? columns[0] : 0) + x, m * 8, (of(rows_8) + (y < of(remainder))) * 8, left);
    }
  }
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    for_each(first, step, 0, work);
  }

  // Rows that a load brings for a row panel of `rows`, by one of two tensor maps: too many, where
  // the other columns' low row panels are a third height.
  __host__ __device__ int short_box() const { return rows_8[0] * 8; }
  __host__ __device__ int box(int rows) const { return short_box() + (rows > short_box() ? 8 : 0); }
};

// RowPanels, and what they cost.
struct RowPanelChoice {
  RowPanelShape shape;
  RowPanels row_panels;

  // `longer` of the columns have shape.stack row panels more than `count`.
  RowPanelChoice(RowPanelShape shape, int columns, int longer, int count, int rows_8)
      : shape(shape) {
    for (const int part : {0, 1}) {
      const int of_these = part == 1 ? longer : columns - longer, n = count + part * shape.cluster;
      row_panels.columns[part] = of_these;
      row_panels.group[part] = of_these > 0 ? raster_group_size(of_these, shape.group) : 1;
      row_panels.rows_8[part] = rows_8 / n;
      row_panels.remainder[part] = rows_8 % n;
    }
    row_panels.count = count;
  }

  int columns() const { return row_panels.columns[0] + row_panels.columns[1]; }
  int64_t tiles() const {
    return int64_t{columns()} * row_panels.count + int64_t{row_panels.columns[1]} * shape.cluster;
  }
  int64_t cluster_tiles() const {  // tiles, where a stack is one
    return int64_t{columns()} * cdiv(row_panels.count, shape.cluster) + row_panels.columns[1];
  }
  double height() const {  // on average
    return 8. * (row_panels.count * row_panels.rows_8[0] + row_panels.remainder[0]) * columns() /
           tiles();
  }
  int tallest() const { return (row_panels.rows_8[0] + (row_panels.remainder[0] > 0)) * 8; }

  int64_t waves(int sms) const {
    return (cluster_tiles() + sms / shape.cluster - 1) / (sms / shape.cluster);
  }
  // Rows of all tiles of the first block, which has most of them.
  int64_t makespan_rows(int sms) const {
    const int blocks = sms / shape.cluster;
    int64_t rows_8 = 0, before = 0, end = 0;
    for (const bool is_short : {false, true})
      for (const int part : {0, 1}) {
        const int64_t until =
            ((end += row_panels.tiles(part, is_short, shape.cluster)) + blocks - 1) / blocks;
        rows_8 += (until - before) * (row_panels.rows_8[part] + !is_short);
        before = until;
      }
    return rows_8 * 8;
  }
  // What the busiest SM computes, in results that cost as much as in tiles of 128 x 192: lower ones
  // read more for each, `bytes` times as much more. Measured on an H200, as TileShape's costs: 2
  // is what it takes in pairs with another kernel, and 20 alone, at the power limit.
  double makespan(int sms, double bytes = 2) const {
    const double more_bytes = 1 / height() + 1. / shape.width - (1. / 128 + 1. / 192);
    return (1 + bytes * more_bytes) * makespan_rows(sms) * shape.width;
  }
  std::string why(int sms) const {
    char text[120];
    std::snprintf(text, sizeof text, "%d%s row panels of %.0f rows, %lld tiles in %lld waves",
                  row_panels.count, row_panels.columns[1] > 0 ? " or more" : "", height(),
                  static_cast<long long>(tiles()), static_cast<long long>(waves(sms)));
    return text;
  }
};

// For M x N results the row panels that end first, in pairs, unless higher ones, which read less,
// cost little: at 8192 row panels of 190 rows are 0.3 to 0.9 % slower in pairs than of 124, and
// alone 6 % faster. All alike where M is less than a row panel, or so large that a wave is nothing
// and trying takes long.
inline RowPanelChoice choose_row_panels(int M, int N, RowPanelShape shape, int sms) {
  constexpr double BYTES = 6;  // of makespan(): between the two
  const int rows_8 = cdiv(M, 8), shortest = shape.shortest / 8, columns = cdiv(N, shape.width);
  if (M == 0 || N == 0) return {shape, 0, 0, 1, shortest};
  const int fewest = cdiv(M, shape.tallest), most = rows_8 / shortest;
  const int height = std::max(shortest, cdiv(rows_8, fewest));
  RowPanelChoice best(shape, columns, 0, fewest, fewest * height);
  if (fewest > most || fewest > 1 << 14) return best;
  double least = best.makespan(sms, BYTES);
  const auto consider = [&](int count, int longer) {
    const RowPanelChoice choice(shape, columns, longer, count, rows_8);
    const double makespan = choice.makespan(sms, BYTES);
    if (makespan < least) {
      least = makespan;
      best = choice;
    }
  };
  for (int64_t waves = best.waves(sms), count = 0; count < most; ++waves) {
    const int64_t cluster_tiles =
        waves * (sms / shape.cluster);  // more of them are lower: less work
    count = std::min<int64_t>(cluster_tiles / columns * shape.cluster, most);
    int n =
        int(count / shape.cluster * shape.cluster);  // whole stacks, unless they would be too high
    if (n < fewest) n = int(count);
    const int longer = n + shape.cluster <= most ? int(cluster_tiles % columns) : 0;
    consider(n, 0);
    if (longer > 0) consider(n, longer);
  }
  return best;
}

constexpr RowPanelShape row_panels_256(int cluster) {
  RowPanelShape shape = ROW_PANELS_256;
  shape.cluster = cluster;
  return shape;
}

// Whether a row panel may begin at any row: A's rows run along K. And whether C's rows are 16-byte
// aligned.
template <class T>
bool allows_row_panels(const GemmArgs<T>& p) {
  return p.op_a == Op::N && has_aligned_c(p);
}

// Calls work(height) with `rows` as a constant, rounded up to a height from LOWEST to HIGHEST.
template <int SHORTEST, int TALLEST, class Work>
GEMM_DEVICE void with_height(int rows, Work&& work) {
  if constexpr (SHORTEST < TALLEST)
    if (rows > SHORTEST) return with_height<SHORTEST + 8, TALLEST>(rows, work);
  work(std::integral_constant<int, SHORTEST>());
}

GEMM_BUILD_NAMESPACE_END
