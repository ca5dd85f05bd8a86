#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"result", "forbidden access"},
    [](Grader& grader) {
      grader.clean({.M = 70, .N = 65, .K = 33, .beta = 0.5f});
      grader.clean({.M = 70, .N = 65, .K = 33});
      grader.right({{.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                    {.M = 64, .N = 64, .K = 16, .alpha = -1},
                    {.M = 5, .N = 130, .K = 0, .beta = -1},
                    {.M = 33, .N = 3, .K = 40, .alpha = 0.5f, .beta = -2}});
    },
    "f32 leaky_relu");

}  // namespace
}  // namespace gemm::grading
