// C's rows in strips of two heights, so many that whole tiles fill all rounds. Taught in v27.
#pragma once

#include "device/platform.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// `count` strips of 8 * eights rows, `more` of them 8 rows higher.
struct Strips {
  static constexpr int HIGHEST = 128;  // rows
  static constexpr int WIDTH = 128;    // columns of a tile
  static constexpr int GROUP = 16;     // columns of tiles that are worked on together

  int count, eights, more;

  // The first row of strip y in column x of tiles. Every other group of columns has its higher
  // strips where its neighbours have lower ones: so a block gets both.
  __host__ __device__ int row(int y, int x) const {
    const int shift = x / GROUP % 2 * (count / 2);
    return (y * eights + (y * more + shift) / count) * 8;
  }
  // Rows that the busiest SM computes, times `columns` a round.
  double rows_of_busiest(int columns, int sms) const {
    const double rounds = double((int64_t{count} * columns + sms - 1) / sms);
    return rounds * (eights + double(more) / count) * 8;
  }
};

// For M rows, N in `columns` tiles: of strips of 120 and 128 rows the number that ends first. All
// alike where they are so many that y * more could overflow.
inline Strips choose_strips(int M, int columns, int sms) {
  const int eights = cdiv(M, 8), highest = Strips::HIGHEST / 8, fewest = cdiv(eights, highest);
  Strips best = {fewest, highest, 0};
  if (fewest > 1 << 14 || fewest == 0) return best;
  for (int count = fewest; count <= std::max(fewest, eights / (highest - 1)); ++count) {
    const Strips strips = {count, eights / count, eights % count};
    if (strips.rows_of_busiest(columns, sms) < best.rows_of_busiest(columns, sms)) best = strips;
  }
  return best;
}

GEMM_BUILD_NAMESPACE_END
