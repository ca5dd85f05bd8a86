#include "grader/grader.h"

namespace gemm::grading {
namespace {

using lab::Fault;
using lab::Type;

const Test test(
    {"writes nothing", "writes zeros", "adds to C", "leaves out the last row", "half of K"},
    [](Grader& grader) {
      const auto expect = [&](const char* name, Fault fault, const char* meaning) {
        for (const lab::Sizes sizes : {lab::Sizes{16, 16, 16}, {33, 20, 47}, {1, 9, 8}}) {
          const bool said =
              grader.drive({{{name, Type::f32, 1, fault}, {"library", Type::f32, 1}}, sizes})
                  .said != 0;
          if (said == (fault == Fault::none)) continue;
          grader.check(name, false, said ? "it passes" : "it does not pass", meaning);
          return;
        }
        grader.check(name, true, "");
      };
      expect("a right kernel", Fault::none, "A right result must pass.");
      expect("writes nothing", Fault::writes_nothing,
             "The right answer is already there when the kernel runs: who wrote it?");
      expect("writes zeros", Fault::writes_zeros, "For which inputs is a product zero?");
      expect("adds to C", Fault::adds_to_c,
             "It reads C, which beta = 0 forbids. What must C hold for that to show?");
      expect("leaves out the last row", Fault::no_last_row,
             "Elements that a kernel leaves out keep what they held before.");
      expect("half of K", Fault::half_of_k,
             "It adds up half of the products. For which inputs does that not show?");
      expect("writes NaN", Fault::writes_nan, "NaN is not close to any number.");
    },
    "verify");

}  // namespace
}  // namespace gemm::grading
