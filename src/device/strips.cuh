// C's rows in strips of two or three heights, so many that whole tiles fill all rounds. Taught in
// v27.
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
constexpr StripShape STRIPS = {128, 104, 192, 16};
// Of tiles that two consumers share. Taught in v27w.
constexpr StripShape WIDE_STRIPS = {256, 152, 192, 8};

// Which rows a tile has, and when. The first columns[0] columns of tiles are cut alike: into
// `count` strips of 8 * eights[0] rows, of which the first more[0] are 8 rows higher. The other
// columns have a strip more, or a stack of them, where so many tiles fill the rounds: 8192 in
// columns of 128 are 44 columns of 43 strips and 20 of 44, 21 times 132 tiles.
//
// As small as can be: 64 bytes more of parameters took a launch 0.05 to 0.2 us, 1.4 % at 1280.
struct Strips {
  int columns[2], count, eights[2], more[2];
  int16_t group[2];  // columns that are worked on together

  // Tiles, or stacks of so many: of a part's high strips, or of its low ones.
  __host__ __device__ int64_t tiles(int part, bool low, int stack) const {
    const int high = cdiv(more[part], stack), all = cdiv(count, stack) + part;
    return int64_t{low ? all - high : high} * columns[part];
  }

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on. All high ones come before all
  // low ones: blocks that take tiles in turn then differ by 8 rows at any time, and at the end.
  // Where STACK strips are a cluster's, these are stacks of tiles, and the work is on that of
  // `rank` in each; the last one may lie below C.
  template <int STACK = 1, class Work>
  GEMM_DEVICE void for_each(int first, int step, int rank, Work&& work) const {
    // Tiles left where an area begins: high ones of the first columns and of the others, low ones.
    const int low1 = tiles(1, true, STACK), low0 = low1 + tiles(0, true, STACK);
    const int high1 = low0 + tiles(1, false, STACK), all = high1 + tiles(0, false, STACK);
    for (int left = all - first; left > 0; left -= step) {
      const bool low = left <= low0, second = left <= (low ? low1 : high1);
      const int nth = (low ? (second ? low1 : low0) : (second ? high1 : all)) - left;
      const auto of = [&](const auto(&parts)[2]) -> int { return second ? parts[1] : parts[0]; };
      const int high_rows = cdiv(of(more), STACK), rows = cdiv(count, STACK) + second;
      const auto [x, row] =
          grouped_tile(nth, of(columns), low ? rows - high_rows : high_rows, of(group));
      const int y = (low ? row + high_rows : row) * STACK + rank;
      const int m = y < of(more) ? y * (of(eights) + 1) : y * of(eights) + of(more);
      work((second ? columns[0] : 0) + x, m * 8, (of(eights) + (y < of(more))) * 8, left);
    }
  }
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    for_each(first, step, 0, work);
  }

  // Rows that a load brings for a strip of `rows`, by one of two tensor maps: too many, where the
  // other columns' low strips are a third height.
  __host__ __device__ int low_box() const { return eights[0] * 8; }
  __host__ __device__ int box(int rows) const { return low_box() + (rows > low_box() ? 8 : 0); }
};

// Strips, and what they cost.
struct StripChoice {
  StripShape shape;
  Strips strips;

  // `longer` of the columns have shape.stack strips more than `count`.
  StripChoice(StripShape shape, int columns, int longer, int count, int eights) : shape(shape) {
    for (const int part : {0, 1}) {
      const int of_these = part == 1 ? longer : columns - longer, n = count + part * shape.stack;
      strips.columns[part] = of_these;
      strips.group[part] = of_these > 0 ? even_group(of_these, shape.group) : 1;
      strips.eights[part] = eights / n;
      strips.more[part] = eights % n;
    }
    strips.count = count;
  }

  int columns() const { return strips.columns[0] + strips.columns[1]; }
  int64_t tiles() const {
    return int64_t{columns()} * strips.count + int64_t{strips.columns[1]} * shape.stack;
  }
  int64_t stacks() const {  // tiles, where a stack is one
    return int64_t{columns()} * cdiv(strips.count, shape.stack) + strips.columns[1];
  }
  double height() const {  // on average
    return 8. * (strips.count * strips.eights[0] + strips.more[0]) * columns() / tiles();
  }
  int highest() const { return (strips.eights[0] + (strips.more[0] > 0)) * 8; }

  int64_t rounds(int sms) const { return (stacks() + sms / shape.stack - 1) / (sms / shape.stack); }
  // Rows of all tiles of the first block, which has most of them.
  int64_t busiest(int sms) const {
    const int blocks = sms / shape.stack;
    int64_t eights = 0, before = 0, end = 0;
    for (const bool low : {false, true})
      for (const int part : {0, 1}) {
        const int64_t until = ((end += strips.tiles(part, low, shape.stack)) + blocks - 1) / blocks;
        eights += (until - before) * (strips.eights[part] + !low);
        before = until;
      }
    return eights * 8;
  }
  // What the busiest SM computes, in results that cost as much as in tiles of 128 x 192: lower ones
  // read more for each, `bytes` times as much more. Measured on an H200, as TileShape's costs: 2
  // is what it takes in pairs with another kernel, and 20 alone, at the power limit.
  double work(int sms, double bytes = 2) const {
    const double more_bytes = 1 / height() + 1. / shape.width - (1. / 128 + 1. / 192);
    return (1 + bytes * more_bytes) * busiest(sms) * shape.width;
  }
  std::string why(int sms) const {
    char text[120];
    std::snprintf(text, sizeof text, "%d%s strips of %.0f rows, %lld tiles in %lld rounds",
                  strips.count, strips.columns[1] > 0 ? " or more" : "", height(),
                  static_cast<long long>(tiles()), static_cast<long long>(rounds(sms)));
    return text;
  }
};

// For M x N results the strips that end first, in pairs, unless higher ones, which read less, cost
// little: at 8192 strips of 190 rows are 0.3 to 0.9 % slower in pairs than of 124, and alone 6 %
// faster. All alike where M is less than a strip, or so large that a round is nothing and trying
// takes long.
inline StripChoice choose_strips(int M, int N, StripShape shape, int sms) {
  constexpr double BYTES = 6;  // of work(): between the two
  const int eights = cdiv(M, 8), lowest = shape.lowest / 8, columns = cdiv(N, shape.width);
  if (M == 0 || N == 0) return {shape, 0, 0, 1, lowest};
  const int fewest = cdiv(M, shape.highest), most = eights / lowest;
  const int height = std::max(lowest, cdiv(eights, fewest));
  StripChoice best(shape, columns, 0, fewest, fewest * height);
  if (fewest > most || fewest > 1 << 14) return best;
  double least = best.work(sms, BYTES);
  const auto consider = [&](int count, int longer) {
    const StripChoice choice(shape, columns, longer, count, eights);
    const double work = choice.work(sms, BYTES);
    if (work < least) {
      least = work;
      best = choice;
    }
  };
  for (int64_t rounds = best.rounds(sms), count = 0; count < most; ++rounds) {
    const int64_t stacks = rounds * (sms / shape.stack);  // more of them are lower: less work
    count = std::min<int64_t>(stacks / columns * shape.stack, most);
    int n = int(count / shape.stack * shape.stack);  // whole stacks, unless they would be too high
    if (n < fewest) n = int(count);
    const int longer = n + shape.stack <= most ? int(stacks % columns) : 0;
    consider(n, 0);
    if (longer > 0) consider(n, longer);
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
