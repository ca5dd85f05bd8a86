#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"result"},
    [](Grader& grader) {
      grader.clean({.M = 20, .N = 40, .K = 37});
      grader.right({{.M = 20, .N = 40, .K = 64},
                    {.M = 17, .N = 33, .K = 37, .alpha = 2, .beta = 0.5f},
                    {.M = 8, .N = 32, .K = 3},
                    {.M = 5, .N = 9, .K = 0, .beta = 2}});
    },
    "f32 leaky_relu");

}  // namespace
}  // namespace gemm::grading
