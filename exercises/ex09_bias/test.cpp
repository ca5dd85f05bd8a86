#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"bias used", "result"},
    [](Grader& grader) {
      const Problem p{.M = 128, .N = 192, .K = 16};
      grader.clean({.M = 70, .N = 65, .K = 33});
      grader.clean(p);
      grader.right({{.M = 128, .N = 128, .K = 32},
                    {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                    {.M = 5, .N = 130, .K = 0},
                    {.M = 33, .N = 3, .K = 100, .alpha = 0, .beta = 2}});
      const int64_t bytes = grader.traffic(p, true, sim::AccessKind::read, "bias").bytes;
      grader.check("bias used", bytes > 0, std::to_string(bytes) + " bytes read",
                   "The kernel never reads the bias.");
      grader.at_most(
          "bytes of bias a thread reads", double(bytes) / (p.M / 4 * (p.N / 4)), 16,
          "A thread has 4 columns, so 4 elements of the bias, 16 bytes, serve all of its 16 "
          "elements of C. Read each once, and keep it in a register.");
    },
    "f32 bias");

}  // namespace
}  // namespace gemm::grading
