#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"result"},
    [](Grader& grader) {
      grader.clean({.M = 33, .N = 20, .K = 40});
      grader.right(
          {{.M = 33, .N = 20, .K = 3}, {.M = 33, .N = 20, .K = 40}, {.M = 5, .N = 9, .K = 531}});
    },
    "f16");

}  // namespace
}  // namespace gemm::grading
