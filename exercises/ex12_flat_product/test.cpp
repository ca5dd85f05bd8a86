#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"MB of global loads", "words of shared memory for 100 multiply-adds",
                 "threads a block, at least 128"},
                [](Grader& grader) {
                  const Problem p{.M = 64, .N = 8448, .K = 64};
                  grader.clean({.M = 130, .N = 140, .K = 20});
                  grader.right({{.M = 64, .N = 256, .K = 32},
                                {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                                {.M = 1, .N = 130, .K = 7},
                                {.M = 33, .N = 3, .K = 100}});
                  const sim::Traffic global = grader.traffic(p, true, sim::AccessKind::read, "");
                  const sim::Traffic shared = grader.traffic(p, false, sim::AccessKind::read, "");
                  const int threads = grader.look(p).threads_per_block;
                  const int64_t blocks = grader.look(p).blocks;
                  grader.at_most(
                      "MB of global loads", double(global.passes) * 32e-6, 4.4,
                      "Every row of A is loaded N / BN times, every column of B as often as "
                      "there are tiles above each other.");
                  grader.at_most(
                      "words of shared memory for 100 multiply-adds",
                      100 * double(shared.bytes) / 4 / (flops(p) / 2), 38,
                      "A thread loads TM + TN words for TM * TN multiply-adds, also for those "
                      "that lie outside of C.");
                  grader.check("CTAs, at least 132", blocks >= 132, std::to_string(blocks),
                               "An H200 has 132 SMs. With fewer tiles some have nothing to do.");
                  grader.check("threads a block, at least 128", threads >= 128,
                               std::to_string(threads),
                               "Fewer than 4 warps cannot keep the SM's 4 schedulers busy.");
                });

}  // namespace
}  // namespace gemm::grading
