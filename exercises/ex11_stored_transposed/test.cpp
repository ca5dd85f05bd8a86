#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"bank conflicts of stores of sA"}, [](Grader& grader) {
  const Problem p{.M = 64, .N = 96, .K = 64, .op_a = Op::T};
  grader.clean(p);
  grader.right({{.M = 64, .N = 32, .K = 32, .op_a = Op::T},
                {.M = 70, .N = 65, .K = 33, .op_a = Op::T, .alpha = 2, .beta = 0.5f},
                {.M = 1, .N = 130, .K = 7, .op_a = Op::T},
                {.M = 33, .N = 3, .K = 100, .op_a = Op::T}});
  for (const sim::AccessKind kind : {sim::AccessKind::write, sim::AccessKind::read})
    for (const char* const tile : {"sA", "sB"}) {
      const sim::Traffic t = grader.traffic(p, false, kind, tile);
      const char* const what = kind == sim::AccessKind::write ? "stores" : "loads";
      grader.at_most(std::string("bank conflicts of ") + what + " of " + tile,
                     double(t.passes) / double(t.ideal), 1,
                     "How many times as many wavefronts as without conflicts. Which banks do the "
                     "32 lanes of a warp use?");
    }
  const sim::Traffic a = grader.traffic(p, true, sim::AccessKind::read, "A");
  grader.at_most("sectors a load of A", double(a.passes) / double(a.requests), 4,
                 "32 neighbours are 4 sectors. Lanes with neighbouring k are lda elements apart.");
});

}  // namespace
}  // namespace gemm::grading
