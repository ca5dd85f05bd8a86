// Arrangements: how a matrix is cut into tiles of tiles, as an algebra of constants.
//
//   constexpr Arrangement a = matrix(M, K).tile(BM, BK).tile(1, -1).expand(-1, tiles_n).squeeze(0);
//
// An arrangement has levels: its outermost indices choose a program, the next ones a step of that
// program, the innermost an element of a tile. Host and device.
#pragma once

#include "device/platform.h"
#include "host_device.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// A place in a matrix, or a step from one place to another.
struct Place {
  int row = 0, col = 0;
  GEMM_INLINE_ANYWHERE constexpr Place operator+(Place other) const {
    return {row + other.row, col + other.col};
  }
  GEMM_INLINE_ANYWHERE constexpr Place operator*(int n) const { return {row * n, col * n}; }
  constexpr bool operator==(const Place&) const = default;
};

// An index of a level: how many values it has, and what one more of it adds to the place.
struct Axis {
  int size = 1;
  Place step = {};
};

// Indices that are counted together, the last one fastest.
struct Level {
  Axis axes[2] = {};
  int rank = 0;       // 0: one element
  bool flat = false;  // whether its indices are one

  GEMM_INLINE_ANYWHERE constexpr int sides() const { return flat ? 1 : rank; }

  GEMM_INLINE_ANYWHERE constexpr int size() const {
    int all = 1;
    for (int i = 0; i < rank; ++i) all *= axes[i].size;
    return all;
  }
  GEMM_INLINE_ANYWHERE constexpr Place at(int index) const {
    Place place;
    for (int i = rank - 1; i >= 0; --i) {
      place = place + axes[i].step * (index % axes[i].size);
      index /= axes[i].size;
    }
    return place;
  }
};

constexpr int WHOLE = -1;  // the whole side of a level, or its length as it is

class Arrangement {
 public:
  static constexpr int MOST = 4;  // levels

  GEMM_INLINE_ANYWHERE constexpr Arrangement(int rows, int cols) : depth_(1) {
    levels_[0] = {{{rows, {1, 0}}, {cols, {0, 1}}}, 2};
  }
  GEMM_INLINE_ANYWHERE constexpr int depth() const { return depth_; }
  // From the outermost, 0, to the innermost.
  GEMM_INLINE_ANYWHERE constexpr const Level& level(int i) const { return levels_[i]; }

  // Cuts the outermost level into tiles of rows x cols: those are the next level, and which of them
  // is the outermost. The last tile of a side may stand out over the edge.
  GEMM_INLINE_ANYWHERE constexpr Arrangement tile(int rows, int cols) const {
    Arrangement tiled = *this;
    for (int i = depth_; i > 0; --i) tiled.levels_[i] = levels_[i - 1];
    ++tiled.depth_;
    const int sizes[] = {rows, cols};
    for (int i = 0; i < 2; ++i) {
      Axis &outer = tiled.levels_[0].axes[i], &inner = tiled.levels_[1].axes[i];
      const int whole = outer.size, size = sizes[i] == WHOLE ? whole : sizes[i];
      outer = {whole / size + (whole % size != 0), outer.step * size};
      inner.size = size;
    }
    return tiled;
  }
  // Repeats the outermost level along a side of length 1.
  GEMM_INLINE_ANYWHERE constexpr Arrangement expand(int rows, int cols) const {
    Arrangement expanded = *this;
    const int sizes[] = {rows, cols};
    for (int i = 0; i < 2; ++i)
      if (sizes[i] != WHOLE) expanded.levels_[0].axes[i] = {sizes[i], {}};
    return expanded;
  }
  // Drops a side of length 1 of level 1, an element of the outermost.
  GEMM_INLINE_ANYWHERE constexpr Arrangement squeeze(int axis) const {
    Arrangement squeezed = *this;
    Level& level = squeezed.levels_[1];
    if (axis == 0) level.axes[0] = level.axes[1];
    --level.rank;
    return squeezed;
  }
  // Makes one index of the outermost level's two.
  GEMM_INLINE_ANYWHERE constexpr Arrangement flatten() const {
    Arrangement flattened = *this;
    flattened.levels_[0].flat = true;
    return flattened;
  }
  // Where in the matrix an element of a tile lies, or the tile itself; indices counted through.
  GEMM_INLINE_ANYWHERE constexpr Place at(int program, int step = 0, int element = 0) const {
    const int indices[] = {program, step, element};
    Place place;
    for (int i = 0; i < depth_ && i < 3; ++i) place = place + levels_[i].at(indices[i]);
    return place;
  }

 private:
  Level levels_[MOST];
  int depth_;
};

GEMM_INLINE_ANYWHERE constexpr Arrangement matrix(int rows, int cols) { return {rows, cols}; }

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
