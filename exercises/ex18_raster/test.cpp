#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"panels that the first 16 blocks load"}, [](Grader& grader) {
  grader.clean({.M = 95, .N = 50, .K = 20});  // 6 x 4 tiles: no multiple of 4 rows
  grader.right(
      {{.M = 128, .N = 64, .K = 32}, {.M = 95, .N = 50, .K = 20}, {.M = 16, .N = 200, .K = 9}});
  const Problem p{.M = 256, .N = 256, .K = 16};  // 16 x 16 tiles
  std::set<int64_t> rows, cols;
  for (int block = 0; block < 16; ++block) {
    const auto [row, col] = grader.written(p, block);
    rows.insert(row);
    cols.insert(col);
  }
  grader.at_most("panels that the first 16 blocks load", double(rows.size() + cols.size()), 10,
                 "Of a grid of 16 x 16 tiles the first 16 blocks cover " +
                     std::to_string(rows.size()) + " rows and " + std::to_string(cols.size()) +
                     " columns of tiles. Each row is a panel of A, each column one of B, that has "
                     "to come from memory.");
});

}  // namespace
}  // namespace gemm::grading
