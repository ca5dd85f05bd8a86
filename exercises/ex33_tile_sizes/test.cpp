#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"MB of global loads", "words of shared memory for 100 multiply-adds",
     "threads a CTA, at least 128"},
    [](Grader& grader) {
      const Problem p{.M = 256, .N = 256, .K = 64};
      grader.clean({.M = 130, .N = 140, .K = 20});
      grader.right({{.M = 128, .N = 128, .K = 32},
                    {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                    {.M = 33, .N = 3, .K = 40}});
      const sim::Traffic global = grader.traffic(p, true, sim::AccessKind::read, "");
      const sim::Traffic shared = grader.traffic(p, false, sim::AccessKind::read, "");
      const int threads = grader.look(p).threads_per_block;
      const double multiply_adds = flops(p) / 2;
      const double tile = double(p.M) * p.N / double(grader.look(p).blocks);
      grader.at_most(
          "MB of global loads", double(global.bytes) / 1e6, 0.27,
          "Every row of A is loaded N / BN times, every column of B M / BM times. Larger "
          "tiles load less; for one area, square ones load least.");
      grader.at_most("words of shared memory for 100 multiply-adds",
                     100 * double(shared.bytes) / 4 / multiply_adds, 25,
                     "A thread loads TM + TN words for TM * TN multiply-adds.");
      grader.at_most("accumulators a thread", tile / threads, 64,
                     "More would not leave room in the 128 registers that a thread has when two "
                     "CTAs of 256 threads share an SM.");
      grader.check("threads a CTA, at least 128", threads >= 128, std::to_string(threads),
                   "Fewer than 4 warps cannot keep the SM's 4 schedulers busy.");
    });

}  // namespace
}  // namespace gemm::grading
