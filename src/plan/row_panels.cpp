#include "plan/row_panels.h"

#include <fmt/format.h>

#include <algorithm>

namespace gemm {
namespace {

int ceil_div(int a, int b) { return a / b + (a % b != 0); }

// The makespan, in elements of C that cost as much as those of a 128 x 192 tile. Flatter tiles read
// more bytes for each element, which count BYTES times: 2 in pairs with another kernel, 20 alone at
// the power limit. In between, so that taller panels win where they cost little: at 8192, panels of
// 190 rows are 0.3 to 0.9 % slower in pairs than panels of 124, and 6 % faster alone.
double makespan(const RowPanelChoice& choice, int sms) {
  constexpr double BYTES = 6;
  const double more_bytes = 1 / choice.height() + 1. / choice.shape.width - (1. / 128 + 1. / 192);
  return (1 + BYTES * more_bytes) * double(choice.makespan_rows(sms)) * choice.shape.width;
}

// rows_8: M / 8, rounded up. `longer` columns are in part 1, with one panel more.
RowPanelChoice cut_into(RowPanelShape shape, int columns, int longer, int count, int rows_8) {
  RowPanelChoice choice{shape, {}};
  RowPanels& panels = choice.row_panels;
  for (const int part : {0, 1}) {
    const int of_these = part == 1 ? longer : columns - longer, n = count + part;
    panels.columns[part] = of_these;
    // As raster_group_size: nearly the same in all groups.
    panels.group[part] =
        of_these > 0 ? int16_t(ceil_div(of_these, ceil_div(of_these, shape.group))) : int16_t{1};
    panels.rows_8[part] = rows_8 / n;
    panels.remainder[part] = rows_8 % n;
  }
  panels.count = count;
  return choice;
}

}  // namespace

double RowPanelChoice::height() const {
  return 8. * (row_panels.count * row_panels.rows_8[0] + row_panels.remainder[0]) * columns() /
         double(tiles());
}

int64_t RowPanelChoice::makespan_rows(int sms) const {
  int64_t rows_8 = 0, before = 0, end = 0;
  for (const bool is_short : {false, true})
    for (const int part : {0, 1}) {
      const int64_t until = ((end += row_panels.tiles(part, is_short)) + sms - 1) / sms;
      rows_8 += (until - before) * (row_panels.rows_8[part] + !is_short);
      before = until;
    }
  return rows_8 * 8;
}

std::string RowPanelChoice::why(int sms, const char* along) const {
  return fmt::format("{}{} {} panels of {:.0f} {}s, {} tiles in {} {}", row_panels.count,
                     row_panels.columns[1] > 0 ? " or more" : "", along, height(), along, tiles(),
                     waves(sms), waves(sms) == 1 ? "wave" : "waves");
}

RowPanelChoice choose_row_panels(int M, int N, RowPanelShape shape, int sms) {
  const int rows_8 = ceil_div(M, 8), shortest = shape.shortest / 8,
            columns = ceil_div(N, shape.width);
  if (M == 0 || N == 0) return cut_into(shape, 0, 0, 1, shortest);
  const int fewest = ceil_div(M, shape.tallest), most = rows_8 / shortest;
  const int height = std::max(shortest, ceil_div(rows_8, fewest));
  RowPanelChoice best = cut_into(shape, columns, 0, fewest, fewest * height);
  if (fewest > most || fewest > 1 << 14) return best;
  double least = makespan(best, sms);
  const auto consider = [&](int count, int longer) {
    const RowPanelChoice choice = cut_into(shape, columns, longer, count, rows_8);
    const double elements = makespan(choice, sms);
    if (elements < least) {
      least = elements;
      best = choice;
    }
  };
  for (int64_t waves = best.waves(sms), count = 0; count < most; ++waves) {
    // As many as fill the waves: more tiles are shorter ones, with less to do for each SM.
    const int64_t tiles = waves * sms;
    count = std::min<int64_t>(tiles / columns, most);
    const int n = std::max(int(count), fewest);
    const int longer = n + 1 <= most ? int(tiles % columns) : 0;
    consider(n, 0);
    if (longer > 0) consider(n, longer);
  }
  return best;
}

}  // namespace gemm
