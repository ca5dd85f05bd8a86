#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"bias used", "result"},
    [](Grader& grader) {
      const Problem p{.M = 70, .N = 65, .K = 33};
      grader.clean(p);
      grader.right({{.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                    {.M = 64, .N = 64, .K = 16},
                    {.M = 5, .N = 130, .K = 0},
                    {.M = 33, .N = 3, .K = 40, .alpha = 0, .beta = 2}});
      const int64_t bytes = grader.traffic(p, true, sim::AccessKind::read, "bias").bytes;
      grader.check("bias used", bytes > 0, std::to_string(bytes) + " bytes read",
                   "The kernel never reads the bias.");
    },
    "f32 bias");

}  // namespace
}  // namespace gemm::grading
