#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"race", "result"}, [](Grader& grader) {
  grader.clean({.M = 70, .N = 100, .K = 40});
  grader.clean({.M = 70, .N = 99, .K = 40});
  grader.right({{.M = 70, .N = 100, .K = 40},
                {.M = 128, .N = 96, .K = 32},
                {.M = 70, .N = 99, .K = 33, .beta = 0.5f},
                {.M = 33, .N = 4, .K = 0}});
});

}  // namespace
}  // namespace gemm::grading
