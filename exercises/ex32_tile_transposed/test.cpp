#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"result", "out of bounds"}, [](Grader& grader) {
  const auto all = [](int m, int n, int k) {
    std::vector<Problem> four;
    for (const Op a : {Op::N, Op::T})
      for (const Op b : {Op::N, Op::T})
        four.push_back({.M = m, .N = n, .K = k, .op_a = a, .op_b = b, .beta = 0.5f});
    return four;
  };
  grader.right(all(32, 32, 32));  // square: a transposed matrix has the same shape
  for (const Problem& p : all(65, 33, 47)) grader.clean(p);
  grader.right(all(65, 33, 47));
});

}  // namespace
}  // namespace gemm::grading
