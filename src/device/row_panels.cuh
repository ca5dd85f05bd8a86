// Row panels of two or three heights, chosen so that whole tiles fill all waves. Taught in v27.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/persistent.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Limits of a kernel's tiles: columns, shortest and tallest height, columns of tiles a raster
// group, CTAs a cluster (one above the other).
struct RowPanelShape {
  int width, shortest, tallest, group, cluster = 1;
};
constexpr RowPanelShape ROW_PANELS_128 = {128, 104, 192, 16};
// Tiles of 256 columns, which two consumers share. Taught in v27w.
constexpr RowPanelShape ROW_PANELS_256 = {256, 152, 192, 8};

// The row panels of one problem, as the kernel's parameter. Columns of tiles are in two parts:
//   part 0   columns[0] columns, each cut into `count` row panels
//   part 1   columns[1] columns with one row panel more (a cluster's CTAs: one more for each)
// In part i a short panel has 8 * rows_8[i] rows, and the first remainder[i] panels are tall: 8
// more. Two parts fill the waves more closely: 8192 x 8192 in columns of 128 has 44 columns of 43
// panels and 20 of 44, which are 21 waves of 132 tiles.
//
// Kept to 32 bytes: 64 bytes more of parameters cost a launch 0.05 to 0.2 us, 1.4 % at 1280.
struct RowPanels {
  int columns[2], count, rows_8[2], remainder[2];
  int16_t group[2];  // columns of tiles a raster group

  // Number of cluster tiles in one part: of its short row panels, or of its tall ones.
  __host__ __device__ int64_t tiles(int part, bool is_short, int cluster) const {
    const int tall = cdiv(remainder[part], cluster), all = cdiv(count, cluster) + part;
    return int64_t{is_short ? all - tall : tall} * columns[part];
  }

  // Calls work(x, m, rows, left) for every `step`-th cluster tile from `first` on: column x of
  // tiles, `rows` rows from m on, and `left` cluster tiles from this one to the last. The tile is
  // that of CTA `rank` of the cluster, and may lie below C in the last one. All tall tiles come
  // before all short ones, so that CTAs are never more than 8 rows apart, at the end neither.
  template <int CLUSTER = 1, class Work>
  GEMM_DEVICE void for_each(int first, int step, int rank, Work&& work) const {
    // Cluster tiles left where each of four sequences begins: tall ones of part 0 (all) and of part
    // 1, short ones of part 0 and of part 1.
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

  // Rows of the two tensor maps' boxes: a short panel of part 0, and 8 more. The short panels of
  // part 1 may have a third height, 8 rows less; they are loaded with the smaller box, 8 rows too
  // many.
  __host__ __device__ int short_box() const { return rows_8[0] * 8; }
  __host__ __device__ int box(int rows) const { return short_box() + (rows > short_box() ? 8 : 0); }
};

// A candidate cut of C into row panels, and its cost.
struct RowPanelChoice {
  RowPanelShape shape;
  RowPanels row_panels;

  RowPanelChoice() = default;
  // rows_8: M / 8, rounded up. `longer` columns are in part 1, with shape.cluster panels more.
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
  int64_t cluster_tiles() const {
    return int64_t{columns()} * cdiv(row_panels.count, shape.cluster) + row_panels.columns[1];
  }
  double height() const {  // of a row panel, on average
    return 8. * (row_panels.count * row_panels.rows_8[0] + row_panels.remainder[0]) * columns() /
           tiles();
  }
  int tallest() const { return (row_panels.rows_8[0] + (row_panels.remainder[0] > 0)) * 8; }

  int64_t waves(int sms) const {
    return (cluster_tiles() + sms / shape.cluster - 1) / (sms / shape.cluster);
  }
  // Rows of all tiles of the first CTA, which has the most: the makespan in rows.
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
  // How often a column of B is read, on average: for tall tiles, and later for short ones.
  double passes() const {
    double reads = 0;
    for (const bool is_short : {false, true})
      for (const int part : {0, 1})
        if (row_panels.tiles(part, is_short, shape.cluster) > 0) reads += row_panels.columns[part];
    return reads / std::max(columns(), 1);
  }
  // The makespan, in elements of C that cost as much as those of a 128 x 192 tile. Flatter tiles
  // read more bytes for each element, which count `bytes` times. Measured on an H200, as
  // TileShape's costs: 2 in pairs with another kernel, 20 alone at the power limit.
  double makespan(int sms, double bytes = 2) const {
    const double more_bytes = 1 / height() + 1. / shape.width - (1. / 128 + 1. / 192);
    return (1 + bytes * more_bytes) * makespan_rows(sms) * shape.width;
  }
  // `along`: "column" where these are row panels of C^T. `ctas`: how many share a tile.
  std::string why(int sms, const char* along = "row", int ctas = 1) const {
    char text[120];
    std::snprintf(text, sizeof text, "%d%s %s panels of %.0f %ss, %lld tiles in %lld %s",
                  row_panels.count, row_panels.columns[1] > 0 ? " or more" : "", along, height(),
                  along, static_cast<long long>(ctas * tiles()), static_cast<long long>(waves(sms)),
                  waves(sms) == 1 ? "wave" : "waves");
    return text;
  }
};

// The row panels with the least makespan for M x N. Bytes count three times what pairs measure, so
// that taller panels win where they cost little: at 8192, panels of 190 rows are 0.3 to 0.9 %
// slower in pairs than panels of 124, and 6 % faster alone. All panels are alike where M is less
// than one, or so large that one wave more does not matter and the search would take long.
inline RowPanelChoice choose_row_panels(int M, int N, RowPanelShape shape, int sms) {
  constexpr double BYTES = 6;  // for makespan(): between pairs and alone
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
    // As many as fill the waves: more tiles are shorter ones, with less to do for each SM.
    const int64_t cluster_tiles = waves * (sms / shape.cluster);
    count = std::min<int64_t>(cluster_tiles / columns * shape.cluster, most);
    int n = int(count / shape.cluster * shape.cluster);  // whole cluster tiles
    if (n < fewest) n = int(count);                      // unless panels would be too tall
    const int longer = n + shape.cluster <= most ? int(cluster_tiles % columns) : 0;
    consider(n, 0);
    if (longer > 0) consider(n, longer);
  }
  return best;
}

// ROW_PANELS_256 for clusters of so many CTAs.
constexpr RowPanelShape row_panels_256(int cluster) {
  RowPanelShape shape = ROW_PANELS_256;
  shape.cluster = cluster;
  return shape;
}

// Whether a kernel of row panels takes the problem. A is not transposed, so that TMA can begin a
// box at any row; and C's rows are 16-byte aligned.
template <class T>
bool allows_row_panels(const GemmArgs<T>& p) {
  return p.op_a == Op::N && has_aligned_c(p);
}

// Calls work(height), a constant: `rows` rounded up to a multiple of 8 from SHORTEST to TALLEST.
template <int SHORTEST, int TALLEST, class Work>
GEMM_DEVICE void with_height(int rows, Work&& work) {
  if constexpr (SHORTEST < TALLEST)
    if (rows > SHORTEST) return with_height<SHORTEST + 8, TALLEST>(rows, work);
  work(std::integral_constant<int, SHORTEST>());
}

GEMM_BUILD_NAMESPACE_END
