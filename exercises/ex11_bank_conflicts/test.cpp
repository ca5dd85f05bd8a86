#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"bank conflicts of loads of sB", "sectors a store of C"}, [](Grader& grader) {
  const Problem p{.M = 128, .N = 256, .K = 64};
  grader.clean(p);
  grader.right({{.M = 128, .N = 128, .K = 32},
                {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                {.M = 1, .N = 130, .K = 7},
                {.M = 33, .N = 3, .K = 100}});
  for (const char* const tile : {"sA", "sB"}) {
    const sim::Traffic t = grader.traffic(p, false, sim::AccessKind::read, tile);
    grader.at_most(std::string("bank conflicts of loads of ") + tile,
                   double(t.passes) / double(t.ideal), 1,
                   "How many times as many wavefronts as without conflicts. Which banks do the 16 "
                   "columns of threads of a warp read?");
  }
  const sim::Traffic c = grader.traffic(p, true, sim::AccessKind::write, "C");
  grader.at_most(
      "sectors a store of C", double(c.passes) / double(c.requests), 4,
      "Two rows of 16 neighbours are 4 sectors. The store follows the thread tile, too.");
});

}  // namespace
}  // namespace gemm::grading
