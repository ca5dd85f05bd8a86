#include "commands/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "commands/jobs.h"
#include "commands/runner.h"
#include "commands/signals.h"
#include "harness/errors.h"
#include "harness/nvtx.h"
#include "harness/timing.h"
#include "harness/verify.h"
#include "version.h"

namespace gemm {
namespace {

// The variants of a rung that take the problem and give the right result, in order.
std::vector<int> right_variants(Device& device, const Job& job, const OnWrong& on_wrong) {
  Verifier verifier(device, job.problem, Layouts::also_padded);
  std::vector<int> right;
  for (size_t i = 0; i < job.rung->variants.size(); ++i) {
    const Rung one = with_variant(*job.rung, static_cast<int>(i));
    if (!unmet_need(one, job.problem, device).empty()) continue;
    const std::string failure = verifier.verify(one);
    if (failure.empty())
      right.push_back(static_cast<int>(i));
    else
      on_wrong(one.variants[0].name, failure);
  }
  return right;
}

void print(const Job& job, const TunedProblem& tuned, const Device& device) {
  const std::string untuned =
      choose_plan(*job.rung, job.problem, nullptr, device.name(), device.arch()).name;
  fmt::print("\n{}\n", job.name());
  for (const TimedVariant& v : tuned.variants)
    fmt::print("  {:>8.2f} TFLOPS {:>6.1f}%  {}{}\n", v.tflops,
               100 * v.tflops / tuned.variants[0].tflops, v.name,
               v.name == untuned ? "   <- the rung's own choice" : "");
  std::fflush(stdout);
}

}  // namespace

TunedProblem measure_variants(const Options& o, Device& device, const Job& job,
                              const OnWrong& on_wrong) {
  const NvtxRange range(job.name());
  TunedProblem tuned{device.name(), job.rung->name, job.problem, {}, GIT_REVISION};
  const std::vector<int> right = right_variants(device, job, on_wrong);
  if (right.empty()) return tuned;
  std::vector<Rung> entrants;
  for (const int i : right) entrants.push_back(with_variant(*job.rung, i));
  TimingOptions options = timing_options(o);
  options.lt_heuristics = 0;
  const std::vector<double> tflops =
      make_timed_problem(device, job.problem, options)->compare(entrants);
  for (size_t i = 0; i < right.size(); ++i)
    tuned.variants.push_back({job.rung->variants[right[i]].name, tflops[i]});
  std::sort(tuned.variants.begin(), tuned.variants.end(),
            [](const TimedVariant& a, const TimedVariant& b) { return a.tflops > b.tflops; });
  return tuned;
}

std::string kept_tuning_file(const Options& o, const Device& device) {
  std::string file = tuning_file(o);
  if (file.empty())
    throw UsageError(
        "--tune: neither XDG_CACHE_HOME nor HOME says where to keep the results; --tune-cache "
        "names a file");
  if (device.backend() == Backend::sim)
    throw UsageError(
        "--tune times variants on a GPU, and the simulator has no time: there is nothing to tune; "
        "--explain and --variant work here");
  std::string broken;
  if (o.tune_cache.empty()) TuningCache::read_unnamed(file, broken);
  try {
    if (!broken.empty()) {
      fmt::print(stderr, "gemm_bench: {}; it is kept as {}.broken\n", broken, file);
      std::rename(file.c_str(), (file + ".broken").c_str());
    }
    TuningCache().write(file);  // a file that cannot be written is refused before the work
  } catch (const OutputError& e) {
    throw UsageError(e.what());
  }
  return file;
}

ExitStatus tune(const Options& o) {
  std::string note;
  const std::unique_ptr<Device> device = choose_device(o, note);
  const std::string file = kept_tuning_file(o, *device);
  std::vector<Job> jobs = plan(o, device->backend());
  std::erase_if(jobs, [](const Job& job) { return job.rung->variants.empty(); });
  if (jobs.empty())
    throw UsageError(fmt::format("--tune: no rung of '{}' has variants", o.kernels));
  fmt::print("{}: {} rungs x problems, kept in {}\n", device->name(), jobs.size(), file);
  bool wrong = false, failed = false, tuned_any = false;
  const auto kept = [&] {
    return fmt::format("{} {}",
                       tuned_any ? "what was measured until then is in" : "unchanged:", file);
  };
  for (const Job& job : jobs) {
    now_running(job.name());
    now_kept(kept());
    if (!unmet_need(*job.rung, job.problem, *device).empty() || flops(job.problem) == 0) continue;
    TunedProblem tuned;
    try {
      tuned = measure_variants(o, *device, job, [&](const auto& variant, const auto& failure) {
        fmt::print("{} {}: WRONG: {}\n", job.name(), variant, failure);
        wrong = true;
      });
    } catch (const std::bad_alloc&) {
      fmt::print("{}: skipped: out of memory\n", job.name());
      failed = true;
      continue;
    } catch (const WrongResult& e) {
      fmt::print("{}: WRONG: {}\n", job.name(), e.what());
      wrong = true;
      continue;
    } catch (const LaunchError& e) {
      fmt::print("{}: FAILED: {}\n", job.name(), e.what());
      failed = true;
      continue;
    } catch (const std::runtime_error& e) {  // the device is lost
      fmt::print("{}: FAILED: {}\n", job.name(), e.what());
      fmt::print(stderr, "gemm_bench: {}; {}\n", e.what(), kept());
      return wrong ? EXIT_WRONG : EXIT_FAILED;
    }
    if (tuned.variants.empty()) continue;
    TuningCache cache;
    cache.put(tuned);
    cache.write(file);  // after each: an end by force loses nothing
    tuned_any = true;
    print(job, tuned, *device);
  }
  if (wrong) return EXIT_WRONG;
  if (failed) {
    fmt::print(stderr, "gemm_bench: some were not measured, as told above; {}\n", kept());
    return EXIT_FAILED;
  }
  if (!tuned_any)
    throw UsageError("nothing was tuned: no rung takes any of these shapes on this GPU");
  return EXIT_VERIFIED;
}

}  // namespace gemm
