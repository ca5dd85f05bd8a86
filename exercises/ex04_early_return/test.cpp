#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"stopped early"}, [](Grader& grader) {
  grader.right({{.M = 64, .N = 48, .K = 32}});  // whole tiles
  grader.clean({.M = 50, .N = 33, .K = 40});
  grader.right({{.M = 50, .N = 33, .K = 40}, {.M = 1, .N = 1, .K = 7}, {.M = 17, .N = 64, .K = 1}});
});

}  // namespace
}  // namespace gemm::grading
