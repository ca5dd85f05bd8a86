#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"result"}, [](Grader& grader) {
  grader.clean({.M = 70, .N = 65, .K = 40});
  grader.right({{.M = 128, .N = 128, .K = 32},
                {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                {.M = 1, .N = 130, .K = 7},
                {.M = 33, .N = 3, .K = 100}});
  grader.right({{.M = 20, .N = 20, .K = 0, .beta = 2}, {.M = 9, .N = 9, .K = 8}});
});

}  // namespace
}  // namespace gemm::grading
