// C's rows in strips of two heights, so many that whole tiles fill all rounds. Taught in v27.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "device/persistent.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// `count` strips of 8 * eights rows, `more` of them 8 rows higher; each of `columns` tiles, `group`
// of which are worked on together.
struct Strips {
  static constexpr int LOWEST = 104, HIGHEST = 160;  // rows
  static constexpr int WIDTH = 128;                  // columns of a tile
  static constexpr int GROUP = 16;                   // the largest group

  int columns, group, count, eights, more;
  int shift = 0;

  // The first row of strip y in column x of tiles. Higher strips come at equal distances; where
  // they begin differs from group to group of columns, by `shift`: so a block gets both.
  __host__ __device__ int row(int y, int x) const {
    return (y * eights + (y * more + x / group * shift % count) / count) * 8;
  }

  // Calls work(x, m, rows, left) for every `step`-th tile from `first` on: `rows` rows from m on,
  // in column x of tiles; so many tiles are left from this one on.
  template <class Work>
  GEMM_DEVICE void for_each(int first, int step, Work&& work) const {
    for_each_tile<GROUP>(first, step, columns, count, [&](int x, int y, int64_t left) {
      const int m = row(y, x);
      work(x, m, row(y + 1, x) - m, left);
    });
  }

  // Rows of all tiles of the block that has most of them, where tiles are dealt to `sms` in turn:
  // in the order of for_each. At every launch, so it has to be short (1 to 16 us): with 0.2 ms on
  // the host for 0.2 ms on the GPU, launches came late and the clock rose.
  int busiest(int sms) const {
    std::vector<int> dealt(sms);
    int block = 0;
    for (int x = 0; x < columns; x += group)
      for (int y = 0; y < count; ++y) {
        const int rows = row(y + 1, x) - row(y, x);
        for (int column = x; column < std::min(x + group, columns); ++column) {
          dealt[block] += rows;
          if (++block == sms) block = 0;
        }
      }
    return *std::max_element(dealt.begin(), dealt.end());
  }
  double height() const { return (eights + double(more) / count) * 8; }  // on average
  int64_t tiles() const { return int64_t{count} * columns; }
  int64_t rounds(int sms) const { return (tiles() + sms - 1) / sms; }
  // What the busiest SM computes, in results that cost as much as in tiles of 128 x 192: lower ones
  // read more for each. Measured on an H200, as TileShape's costs.
  double work(int sms) const {
    const double bytes = 1 / height() + 1. / WIDTH, least = 1. / 128 + 1. / 192;
    return (1 + 4 * (bytes - least)) * rounds(sms) * height() * WIDTH;
  }
  std::string why(int sms) const {
    char text[80];
    std::snprintf(text, sizeof text, "%d strips of %.0f rows, %lld tiles in %lld rounds", count,
                  height(), static_cast<long long>(tiles()), static_cast<long long>(rounds(sms)));
    return text;
  }
};

// For M x N results the number of strips, of LOWEST to `highest` rows, that ends first; unshifted.
// All alike where M is less than that or so large that y * more could overflow.
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

// The same strips with the shift that deals them out best: half of them, unless another is better.
// Of 4352 rows the busiest block had 2.8 % more than the mean, with 12 of 31 1.3 %, and is as much
// faster. Many rounds even out.
inline Strips even_out(Strips strips, int sms) {
  strips.shift = strips.count / 2;
  if (strips.columns <= strips.group || strips.more == 0 || strips.rounds(sms) > 32) return strips;
  const Strips half = strips;
  int busiest = half.busiest(sms);
  for (int shift : {0, 2 * half.count / 5}) {
    if (busiest < half.tiles() * half.height() / sms + 8) break;  // there is no better
    Strips other = half;
    other.shift = shift;
    const int rows = other.busiest(sms);
    if (rows < busiest) busiest = rows, strips = other;
  }
  return strips;
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
