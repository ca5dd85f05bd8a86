// A variant of a table of split-K tiles, by its number.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "plan/splits.h"

namespace gemm {

// The variant's tile and number of splits of K.
template <class Tile, size_t N>
std::pair<Tile, int> split_variant(const Tile (&tiles)[N], int index) {
  std::pair<Tile, int> found;
  for_each_split(tiles, [&](int variant, const Tile& tile, int splits) {
    if (variant == index) found = {tile, splits};
  });
  EXPECT_GT(found.second, 0) << "no such variant";
  return found;
}

}  // namespace gemm
