#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test(
    {"bank conflicts of loads of sA", "bank conflicts of loads of sB"},
    [](Grader& grader) {
      const Problem p{.M = 64, .N = 128, .K = 64};
      grader.clean(p);
      grader.right({{.M = 64, .N = 64, .K = 32},
                    {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                    {.M = 1, .N = 130, .K = 7},
                    {.M = 20, .N = 20, .K = 0, .beta = 2}});
      for (const sim::AccessKind kind : {sim::AccessKind::write, sim::AccessKind::read})
        for (const char* const tile : {"sA", "sB"}) {
          const sim::Traffic t = grader.traffic(p, false, kind, tile);
          const char* const what = kind == sim::AccessKind::write ? "stores" : "loads";
          grader.at_most(std::string("bank conflicts of ") + what + " of " + tile,
                         double(t.passes) / double(t.ideal), 1,
                         "How many times as many wavefronts as without conflicts. Which banks do "
                         "the 8 rows of one matrix of ldmatrix use?");
        }
    },
    "f16");

}  // namespace
}  // namespace gemm::grading
