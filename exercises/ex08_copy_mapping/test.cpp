#include "grader/grader.h"

namespace gemm::grading {
namespace {

const Test test({"sectors a load of A", "bank conflicts of stores to sA"}, [](Grader& grader) {
  const Problem p{.M = 128, .N = 256, .K = 64};
  grader.clean(p);
  grader.right({{.M = 128, .N = 128, .K = 32},
                {.M = 70, .N = 65, .K = 33, .alpha = 2, .beta = 0.5f},
                {.M = 1, .N = 130, .K = 7},
                {.M = 33, .N = 3, .K = 100}});
  const auto each = [](const sim::Traffic& t) { return double(t.passes) / double(t.requests); };
  grader.at_most(
      "sectors a load of A", each(grader.traffic(p, true, sim::AccessKind::read, "A")), 4,
      "The 32 lanes of a warp ask for 128 bytes of A. A sector is 32 bytes, so 4 sectors "
      "hold them, if the lanes ask for neighbours.");
  grader.at_most("sectors a load of B", each(grader.traffic(p, true, sim::AccessKind::read, "B")),
                 4, "The same for B.");
  const sim::Traffic stores = grader.traffic(p, false, sim::AccessKind::write, "sA");
  grader.at_most("bank conflicts of stores to sA", double(stores.passes) / double(stores.ideal), 1,
                 "How many times as many wavefronts as without conflicts: the lanes store to few "
                 "of the 32 banks.");
});

}  // namespace
}  // namespace gemm::grading
