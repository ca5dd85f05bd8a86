#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"race", "result"}, [](Grader& grader) {
  grader.clean({.M = 64, .N = 128, .K = 40});
  grader.clean({.M = 70, .N = 140, .K = 12});
  grader.right({{.M = 128, .N = 128, .K = 32},
                {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                {.M = 1, .N = 130, .K = 7},
                {.M = 33, .N = 3, .K = 100}});
});

}  // namespace
}  // namespace gemm::grading
