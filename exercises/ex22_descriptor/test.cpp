#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"result"},
    [](Grader& grader) {
      grader.clean({.M = 72, .N = 104, .K = 328});
      grader.right({{.M = 72, .N = 104, .K = 328},
                    {.M = 128, .N = 64, .K = 64, .alpha = 2, .beta = 0.5f},
                    {.M = 65, .N = 31, .K = 70},
                    {.M = 20, .N = 20, .K = 0, .beta = 2}});
    },
    "f16");

}  // namespace
}  // namespace gemm::grading
