// A kernel's walk over row panels (plan/row_panels.h), and main loops for tiles of any height.
// Taught in v27.
#pragma once

#include <type_traits>

#include "device/scheduler.cuh"
#include "plan/row_panels.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Calls work(x, y, rows, left) for every `step`-th tile from `first` on: column x of tiles, `rows`
// rows from y on, and `left` tiles from this one to the last. All tall tiles come before all short
// ones, so that CTAs are never more than 8 rows apart, at the end neither.
template <class Work>
GEMM_DEVICE void for_each_panel(const RowPanels& panels, int first, int step, Work&& work) {
  // Tiles left where each of four sequences begins: tall ones of part 0 (all) and of part 1, short
  // ones of part 0 and of part 1.
  const int short1 = panels.tiles(1, true), short0 = short1 + panels.tiles(0, true);
  const int tall1 = short0 + panels.tiles(1, false), all = tall1 + panels.tiles(0, false);
  for (int left = all - first; left > 0; left -= step) {
    const bool is_short = left <= short0, second = left <= (is_short ? short1 : tall1);
    const int nth = (is_short ? (second ? short1 : short0) : (second ? tall1 : all)) - left;
    const auto of = [&](const auto(&parts)[2]) -> int { return second ? parts[1] : parts[0]; };
    const int tall_rows = of(panels.remainder), rows = panels.count + second;
    const auto [x, row] = grouped_tile(nth, of(panels.columns),
                                       is_short ? rows - tall_rows : tall_rows, of(panels.group));
    const int y = is_short ? row + tall_rows : row;
    const int y_8 = y < tall_rows ? y * (of(panels.rows_8) + 1) : y * of(panels.rows_8) + tall_rows;
    work((second ? panels.columns[0] : 0) + x, y_8 * 8, (of(panels.rows_8) + (y < tall_rows)) * 8,
         left);
  }
}

// Calls work(height), a constant: `rows` rounded up to a multiple of 8 from SHORTEST to TALLEST.
template <int SHORTEST, int TALLEST, class Work>
GEMM_DEVICE void with_height(int rows, Work&& work) {
  if constexpr (SHORTEST == TALLEST) {
    work(std::integral_constant<int, SHORTEST>());
  } else {
    constexpr int MIDDLE = (SHORTEST + TALLEST) / 16 * 8;  // bisects: 31 comparisons are 0.3 us
    if (rows <= MIDDLE)
      with_height<SHORTEST, MIDDLE>(rows, work);
    else
      with_height<MIDDLE + 8, TALLEST>(rows, work);
  }
}

GEMM_BUILD_NAMESPACE_END
