// C's rows in strips of two heights, so many that whole tiles fill all rounds. Taught in v27.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/persistent.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// `count` strips of 8 * eights rows, the first `more` of them 8 rows higher; each of `columns`
// tiles, `group` of which are worked on together.
struct Strips {
  static constexpr int LOWEST = 104, HIGHEST = 192;  // rows
  static constexpr int WIDTH = 128;                  // columns of a tile
  static constexpr int GROUP = 16;                   // the largest group

  int columns, group, count, eights, more;

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on. All high ones come before all
  // low ones: blocks that take tiles in turn then differ by 8 rows at any time, and at the end.
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    const int64_t high = int64_t{more} * columns;
    for (int64_t tile = first; tile < tiles(); tile += step) {
      const bool low = tile >= high;
      const auto [x, y] = low ? grouped_tile(tile - high, columns, count - more, group)
                              : grouped_tile(tile, columns, more, group);
      const int m = low ? (y + more) * eights + more : y * (eights + 1);
      work(x, m * 8, (eights + !low) * 8, tiles() - tile);
    }
  }

  double height() const { return (eights + double(more) / count) * 8; }  // on average
  __host__ __device__ int64_t tiles() const { return int64_t{count} * columns; }
  int64_t rounds(int sms) const { return (tiles() + sms - 1) / sms; }
  // Rows of all tiles of the first block, which has most of them.
  int64_t busiest(int sms) const {
    const int64_t high = (int64_t{more} * columns + sms - 1) / sms;
    return (rounds(sms) * eights + high) * 8;
  }
  // What the busiest SM computes, in results that cost as much as in tiles of 128 x 192: lower ones
  // read more for each. Measured on an H200, as TileShape's costs.
  double work(int sms) const {
    const double bytes = 1 / height() + 1. / WIDTH, least = 1. / 128 + 1. / 192;
    return (1 + 2 * (bytes - least)) * busiest(sms) * WIDTH;
  }
  std::string why(int sms) const {
    char text[80];
    std::snprintf(text, sizeof text, "%d strips of %.0f rows, %lld tiles in %lld rounds", count,
                  height(), static_cast<long long>(tiles()), static_cast<long long>(rounds(sms)));
    return text;
  }
};

// For M x N results the number of strips, of LOWEST to `highest` rows, that ends first.
// All alike where M is less than that, or so large that a round is nothing and trying takes long.
inline Strips choose_strips(int M, int N, int highest, int sms) {
  const int eights = cdiv(M, 8), lowest = Strips::LOWEST / 8, columns = cdiv(N, Strips::WIDTH);
  if (M == 0 || N == 0) return {columns, 1, 0, lowest, 0};
  const int fewest = cdiv(M, highest), group = even_group(columns, Strips::GROUP);
  Strips best = {columns, group, fewest, std::max(lowest, cdiv(eights, fewest)), 0};
  const int most = eights / lowest;
  if (fewest > most || fewest > 1 << 14) return best;
  double least = best.work(sms);
  for (int64_t rounds = best.rounds(sms), count = 0; count < most; ++rounds) {
    count = std::min<int64_t>(rounds * sms / columns, most);  // more of them are lower: less work
    const Strips strips = {columns, group, int(count), int(eights / count), int(eights % count)};
    if (strips.work(sms) < least) least = strips.work(sms), best = strips;
  }
  return best;
}

// Whether a strip may begin at any row: A's rows run along K. And whether C's rows are wide.
template <class T>
bool allows_strips(const GemmArgs<T>& p) {
  return p.op_a == Op::N && has_wide_rows(p);
}

// Calls work(height) with `rows` as a constant, rounded up to a height that strips can have.
template <int HIGHEST, int HEIGHT = Strips::LOWEST, class Work>
GEMM_DEVICE void with_height(int rows, Work&& work) {
  if constexpr (HEIGHT < HIGHEST)
    if (rows > HEIGHT) return with_height<HIGHEST, HEIGHT + 8>(rows, work);
  work(std::integral_constant<int, HEIGHT>());
}

GEMM_BUILD_NAMESPACE_END
