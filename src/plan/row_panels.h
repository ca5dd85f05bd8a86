// Row panels of two or three heights, chosen so that whole tiles fill all waves. Taught in v27.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "host_device.h"

namespace gemm {

// Limits of a kernel's tiles: width along x, shortest and tallest height, columns of tiles a raster
// group.
struct RowPanelShape {
  int width, shortest, tallest, group = 16;
};

// The row panels of one problem, as the kernel's parameter. Columns of tiles are in two parts:
//   part 0   columns[0] columns, each cut into `count` row panels
//   part 1   columns[1] columns with one row panel more
// In part i a short panel has 8 * rows_8[i] rows, and the first remainder[i] panels are tall: 8
// more. Two parts fill the waves more closely: 8192 x 8192 in columns of 128 has 44 columns of 43
// panels and 20 of 44, which are 21 waves of 132 tiles.
//
// Kept to 32 bytes: 64 bytes more of parameters cost a launch 0.05 to 0.2 us, 1.4 % at 1280.
struct RowPanels {
  int columns[2], count, rows_8[2], remainder[2];
  int16_t group[2];  // columns of tiles a raster group

  // Number of tiles in one part: of its short row panels, or of its tall ones.
  GEMM_INLINE_ANYWHERE int64_t tiles(int part, bool is_short) const {
    const int tall = remainder[part], all = count + part;
    return int64_t{is_short ? all - tall : tall} * columns[part];
  }
  // Rows of the two tensor maps' boxes: a short panel of part 0, and 8 more. The short panels of
  // part 1 may have a third height, 8 rows less; they are loaded with the smaller box, 8 rows too
  // many.
  GEMM_INLINE_ANYWHERE int short_box() const { return rows_8[0] * 8; }
  GEMM_INLINE_ANYWHERE int box(int rows) const {
    return short_box() + (rows > short_box() ? 8 : 0);
  }
};

// A candidate cut of C into row panels, and its cost.
struct RowPanelChoice {
  RowPanelShape shape;
  RowPanels row_panels;

  int columns() const { return row_panels.columns[0] + row_panels.columns[1]; }
  int64_t tiles() const { return int64_t{columns()} * row_panels.count + row_panels.columns[1]; }
  double height() const;  // of a row panel, on average
  int tallest() const { return (row_panels.rows_8[0] + (row_panels.remainder[0] > 0)) * 8; }
  int64_t waves(int sms) const { return (tiles() + sms - 1) / sms; }
  // Rows of all tiles of the first CTA, which has the most: the makespan in rows.
  int64_t makespan_rows(int sms) const;
  // "24 or more row panels of 168 rows, 792 tiles in 6 waves". `along`: "column" where these are
  // panels of C's columns.
  std::string why(int sms, const char* along = "row") const;
};

// The row panels with the least makespan for M x N. All panels are alike where M is less than one,
// or so large that one wave more does not matter and the search would take long.
RowPanelChoice choose_row_panels(int M, int N, RowPanelShape shape, int sms);

}  // namespace gemm
