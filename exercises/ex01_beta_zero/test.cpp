#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"forbidden access", "result"}, [](Grader& grader) {
  grader.clean({.M = 65, .N = 33, .K = 20});
  grader.right({{.M = 65, .N = 33, .K = 20, .beta = 0.5f},
                {.M = 65, .N = 33, .K = 20},
                {.M = 9, .N = 40, .K = 0, .beta = -1},
                {.M = 9, .N = 40, .K = 0}});
});

}  // namespace
}  // namespace gemm::grading
