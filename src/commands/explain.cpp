#include "commands/explain.h"

#include <fmt/format.h>

#include "commands/jobs.h"
#include "harness/verify.h"

namespace gemm {

ExitStatus explain(const Options& o) {
  std::string note;
  const std::unique_ptr<Device> device = choose_device(o, note);
  const std::vector<Job> jobs = plan(o, device->backend());
  const TuningCache cache = read_tuning(o, device->backend(), jobs);
  if (!note.empty()) fmt::print("{}\n", note);
  for (const Job& job : jobs) {
    const std::string why_not = unmet_need(rung_of(job), job.problem, *device);
    fmt::print("{}: ", job.name());
    if (!why_not.empty()) {
      fmt::print("would be skipped: {}\n", why_not);
    } else if (job.rung->variants.empty()) {
      fmt::print("has no variants\n");
    } else {
      const ExplainedPlan c = choose(job, cache, *device);
      fmt::print("{}\n    {}\n", c.name, c.why);
    }
  }
  return EXIT_VERIFIED;
}

}  // namespace gemm
