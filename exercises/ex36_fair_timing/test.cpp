#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "grader/grader.h"

namespace gemm::grading {
namespace {

using lab::Launch;
using lab::Type;

const Test test(
    {"bytes that L2 holds, in percent", "launches on zeros", "first launches in the time",
     "libraries of the same type, all", "the ratio"},
    [](Grader& grader) {
      const lab::Sizes sizes{64, 48, 80};
      double warm = 0, zeros = 0, first = 0, worst = 0;
      bool right_libraries = true;
      std::string ratios;
      for (const double slowness : {0.8, 1.0, 1.3}) {
        const lab::Task task{{{"ours", Type::f16, slowness},
                              {"library, f32", Type::f32, 2.5},
                              {"library, f16", Type::f16, 1.2},
                              {"library, f16, tuned", Type::f16, 1.0}},
                             sizes};
        const auto [said, launched] = grader.drive(task);
        lab::Machine::Model model;
        const std::vector<lab::Kernel> kernels = model.add_kernels(task.kernels);
        const double fair = model.cold_time(kernels[3], sizes) / model.cold_time(kernels[0], sizes);
        if (!(std::abs(said / fair - 1) <= worst)) {
          worst = std::abs(said / fair - 1);
          ratios = fmt::format("{:.2f}, where a fair one says {:.2f}", said, fair);
        }
        std::vector<int> launches(4);
        for (const Launch& l : launched) {
          if (!l.timed) continue;
          ++launches.at(l.kernel);
          warm = std::max(warm, 100 * l.warm);
          zeros += l.zeros, first += l.first;
        }
        right_libraries = right_libraries && launches[0] > 0 && launches[1] == 0 &&
                          launches[2] > 0 && launches[3] > 0;
      }
      grader.at_most("bytes that L2 holds, in percent", warm, 0,
                     "A timed launch found A, B or C in L2, where the one before had left them.");
      grader.at_most("launches on zeros", zeros, 0,
                     "Zeros cost less energy than numbers, and the clock stays higher.");
      grader.at_most("first launches in the time", first, 0,
                     "The first launch of a kernel loads its code. Launch it once before.");
      grader.check("libraries of the same type, all", right_libraries, "",
                   "The kernel multiplies f16. The baseline is the fastest library that does "
                   "the same, and nothing else is timed.");
      grader.check("the ratio", worst <= 0.02, ratios,
                   "The kernel and the fastest library in turn, so that both see the same "
                   "temperature; a ratio for each pair; the median.");
    },
    "compare");

}  // namespace
}  // namespace gemm::grading
