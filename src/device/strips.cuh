// C's rows in strips of two or three heights, so many that whole tiles fill all rounds. Taught in
// v27; wide ones in v27w.
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

// Columns of tiles that are cut alike: `count` strips of 8 * eights rows, the first `more` of them
// 8 rows higher. `group` columns are worked on together.
struct StripColumns {
  int columns, group, count, eights, more;
};

// All columns of tiles, each `width` wide. Those of the second part have a strip more, or a stack
// of them, where so many tiles fill the rounds: 8192 in columns of 128 are 44 columns of 43 strips
// and 20 of 44, 21 times 132 tiles.
struct Strips {
  int width, stack;
  StripColumns part[2];
  int64_t ends[4];  // of the high tiles of both parts, and of the low ones; in stacks

  Strips(StripShape shape, int columns, int longer, int count, int eights)
      : width(shape.width), stack(shape.stack) {
    const auto cut = [&](int n, int strips) {
      return StripColumns{n, n > 0 ? even_group(n, shape.group) : 1, strips, eights / strips,
                          eights % strips};
    };
    part[0] = cut(columns - longer, count), part[1] = cut(longer, count + stack);
    int64_t end = 0;
    for (int i = 0; i < 4; ++i) ends[i] = end += int64_t{rows(i, stack)} * part[i % 2].columns;
  }

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on. All high ones come before all
  // low ones: blocks that take tiles in turn then differ by 8 rows at any time, and at the end.
  // Where STACK strips are a cluster's, these are stacks of tiles, and the work is on that of
  // `rank` in each; the last one may lie below C.
  template <int STACK = 1, class Work>
  GEMM_DEVICE void for_each(int first, int step, int rank, Work&& work) const {
    for (int64_t tile = first; tile < ends[3]; tile += step) {
      const int i = (tile >= ends[0]) + (tile >= ends[1]) + (tile >= ends[2]);
      const StripColumns& cut = part[i % 2];
      const auto [x, row] =
          grouped_tile(i > 0 ? tile - ends[i - 1] : tile, cut.columns, rows(i, STACK), cut.group);
      const int y = (i < 2 ? row : row + rows(i - 2, STACK)) * STACK + rank;
      const int m = y < cut.more ? y * (cut.eights + 1) : y * cut.eights + cut.more;
      work(i % 2 * part[0].columns + x, m * 8, (cut.eights + (y < cut.more)) * 8, ends[3] - tile);
    }
  }
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    for_each(first, step, 0, work);
  }

  int columns() const { return part[0].columns + part[1].columns; }
  int64_t stacks() const { return ends[3]; }  // tiles, where a strip is a stack
  int64_t tiles() const {
    return int64_t{part[0].columns} * part[0].count + int64_t{part[1].columns} * part[1].count;
  }
  double height() const {  // on average
    return 8. * (part[0].count * part[0].eights + part[0].more) * columns() / tiles();
  }
  int highest() const { return (part[0].eights + (part[0].more > 0)) * 8; }
  // Rows that a load brings for a strip of `rows`, by one of two tensor maps: 8 too many, where the
  // second part's low strips are a third height.
  __host__ __device__ int low_box() const { return part[0].eights * 8; }
  __host__ __device__ int box(int rows) const { return low_box() + (rows > low_box() ? 8 : 0); }

  int64_t rounds(int sms) const { return (ends[3] + sms / stack - 1) / (sms / stack); }
  // Rows of all tiles of the first block, which has most of them.
  int64_t busiest(int sms) const {
    const int blocks = sms / stack;
    int64_t eights = 0, before = 0;
    for (int i = 0; i < 4; ++i) {
      const int64_t until = (ends[i] + blocks - 1) / blocks;
      eights += (until - before) * (part[i % 2].eights + (i < 2));
      before = until;
    }
    return eights * 8;
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
    std::snprintf(text, sizeof text, "%d%s strips of %.0f rows, %lld tiles in %lld rounds",
                  part[0].count, part[1].columns > 0 ? " or more" : "", height(),
                  static_cast<long long>(tiles()), static_cast<long long>(rounds(sms)));
    return text;
  }

 private:
  // Of tiles, or of stacks of them: of the high ones of a part, or, behind those, the low ones.
  __host__ __device__ int rows(int i, int stacked) const {
    const StripColumns& cut = part[i % 2];
    const int high = cdiv(cut.more, stacked);
    return i < 2 ? high : cdiv(cut.count, stacked) - high;
  }
};

// For M x N results the strips that end first, in pairs, unless higher ones, which read less, cost
// little: at 8192 strips of 190 rows are 0.3 to 0.9 % slower in pairs than of 124, and alone 6 %
// faster. All alike where M is less than a strip, or so large that a round is nothing and trying
// takes long.
inline Strips choose_strips(int M, int N, StripShape shape, int sms) {
  constexpr double BYTES = 6;  // of work(): between the two
  const int eights = cdiv(M, 8), lowest = shape.lowest / 8, columns = cdiv(N, shape.width);
  if (M == 0 || N == 0) return {shape, 0, 0, 1, 0};
  const int fewest = cdiv(M, shape.highest), most = eights / lowest;
  const int height = std::max(lowest, cdiv(eights, fewest));
  Strips best(shape, columns, 0, fewest, fewest * height);
  if (fewest > most || fewest > 1 << 14) return best;
  double least = best.work(sms, BYTES);
  for (int64_t rounds = best.rounds(sms), count = 0; count < most; ++rounds) {
    const int64_t stacks = rounds * (sms / shape.stack);  // more of them are lower: less work
    count = std::min<int64_t>(stacks / columns * shape.stack, most);
    int n = int(count / shape.stack * shape.stack);  // whole stacks, unless they would be too high
    if (n < fewest) n = int(count);
    const int longer = n + shape.stack <= most ? int(stacks % columns) : 0;
    for (const int with_more : {0, longer}) {
      const Strips strips(shape, columns, with_more, n, eights);
      const double work = strips.work(sms, BYTES);
      if (work < least) least = work, best = strips;
    }
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
