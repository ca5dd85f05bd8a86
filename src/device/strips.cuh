// C's rows in strips of two heights, so many that whole tiles fill all rounds. Taught in v27; wide
// ones in v27w.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/persistent.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// What strips can be: columns of their tiles, rows, how many tiles may make a group, and how many
// strips, one above the other, are a cluster's.
struct StripShape {
  int width, lowest, highest, group, stack = 1;
};
constexpr StripShape STRIPS = {128, 104, 192, 16}, WIDE_STRIPS = {256, 152, 192, 8};  // v27, v27w

// `count` strips of 8 * eights rows, the first `more` of them 8 rows higher; each of `columns`
// tiles of `width` columns, `group` of which are worked on together.
struct Strips {
  int width, columns, group, count, eights, more;

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on. All high ones come before all
  // low ones: blocks that take tiles in turn then differ by 8 rows at any time, and at the end.
  // Where STACK strips are a cluster's, these are stacks of tiles, and the work is on that of
  // `rank` in each; the last one may lie below C.
  template <int STACK = 1, class Work>
  GEMM_DEVICE void for_each(int first, int step, int rank, Work&& work) const {
    const int high_rows = cdiv(more, STACK), low_rows = cdiv(count, STACK) - high_rows;
    const int64_t high = int64_t{high_rows} * columns, all = tiles<STACK>();
    for (int64_t tile = first; tile < all; tile += step) {
      const bool low = tile >= high;
      const auto [x, row] = low ? grouped_tile(tile - high, columns, low_rows, group)
                                : grouped_tile(tile, columns, high_rows, group);
      const int y = (low ? row + high_rows : row) * STACK + rank;
      const int m = y < more ? y * (eights + 1) : y * eights + more;
      work(x, m * 8, (eights + (y < more)) * 8, all - tile);
    }
  }
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    for_each(first, step, 0, work);
  }

  double height() const { return (eights + double(more) / count) * 8; }  // on average
  template <int STACK = 1>
  __host__ __device__ int64_t tiles() const {
    return int64_t{cdiv(count, STACK)} * columns;
  }
  int64_t rounds(int sms) const { return (tiles() + sms - 1) / sms; }
  // Rows of all tiles of the first block, which has most of them.
  int64_t busiest(int sms) const {
    const int64_t high = (int64_t{more} * columns + sms - 1) / sms;
    return (rounds(sms) * eights + high) * 8;
  }
  // What the busiest SM computes, in results that cost as much as in tiles of 128 x 192: lower ones
  // read more for each, `bytes` times as much more. Measured on an H200, as TileShape's costs: 2
  // is what it takes in pairs with another kernel, and 20 alone, at the power limit.
  double work(int sms, double bytes = 2) const {
    const double more_bytes = 1 / height() + 1. / width - (1. / 128 + 1. / 192);
    return (1 + bytes * more_bytes) * busiest(sms) * width;
  }
  std::string why(int sms) const {
    char text[80];
    std::snprintf(text, sizeof text, "%d strips of %.0f rows, %lld tiles in %lld rounds", count,
                  height(), static_cast<long long>(tiles()), static_cast<long long>(rounds(sms)));
    return text;
  }
};

// For M x N results the number of strips that ends first, in pairs, unless higher ones, which read
// less, cost little: at 8192 strips of 190 rows are 0.3 to 0.9 % slower in pairs than of 124, and
// alone 6 % faster. All alike where M is less than a strip, or so large that a round is nothing and
// trying takes long.
inline Strips choose_strips(int M, int N, StripShape shape, int sms) {
  constexpr double BYTES = 6;  // of work(): between the two
  const int eights = cdiv(M, 8), lowest = shape.lowest / 8, columns = cdiv(N, shape.width);
  if (M == 0 || N == 0) return {shape.width, columns, 1, 0, lowest, 0};
  const int fewest = cdiv(M, shape.highest), group = even_group(columns, shape.group);
  const int height = std::max(lowest, cdiv(eights, fewest));
  Strips best = {shape.width, columns, group, fewest, height, 0};
  const int most = eights / lowest;
  if (fewest > most || fewest > 1 << 14) return best;
  double least = best.work(sms, BYTES);
  for (int64_t rounds = best.rounds(sms), count = 0; count < most; ++rounds) {
    count = std::min<int64_t>(rounds * sms / columns, most);  // more of them are lower: less work
    int n = int(count / shape.stack * shape.stack);  // whole stacks, unless they would be too high
    if (n < fewest) n = int(count);
    const Strips strips = {shape.width, columns, group, n, eights / n, eights % n};
    const double work = strips.work(sms, BYTES);
    if (work < least) least = work, best = strips;
  }
  return best;
}

constexpr StripShape wide_strips(int cluster) {
  StripShape shape = WIDE_STRIPS;
  shape.stack = cluster;
  return shape;
}

// Whether a strip may begin at any row: A's rows run along K. And whether C's rows are wide.
template <class T>
bool allows_strips(const GemmArgs<T>& p) {
  return p.op_a == Op::N && has_wide_rows(p);
}

// Calls work(height) with `rows` as a constant, rounded up to a height from LOWEST to HIGHEST.
template <int LOWEST, int HIGHEST, class Work>
GEMM_DEVICE void with_height(int rows, Work&& work) {
  if constexpr (LOWEST < HIGHEST)
    if (rows > LOWEST) return with_height<LOWEST + 8, HIGHEST>(rows, work);
  work(std::integral_constant<int, LOWEST>());
}

GEMM_BUILD_NAMESPACE_END
