#include "commands/run.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "commands/apart.h"
#include "commands/jobs.h"
#include "commands/results.h"
#include "commands/runner.h"
#include "commands/signals.h"
#include "commands/tune.h"
#include "harness/errors.h"
#include "harness/text.h"
#include "version.h"

namespace gemm {
namespace {

void add_context(const Options& o, Device& device) {
  benchmark::AddCustomContext("command_line", command_line(o));
  benchmark::AddCustomContext("git_revision", GIT_REVISION);
  benchmark::AddCustomContext("backend", device.backend() == Backend::gpu ? "gpu" : "simulator");
  benchmark::AddCustomContext("build", BUILD_DESCRIPTION);
  if (device.backend() != Backend::gpu) return;
  for (const auto& [key, value] : describe_gpu(device)) benchmark::AddCustomContext(key, value);
  benchmark::AddCustomContext("l2", o.l2_cold ? "cold" : "warm");
}

Peaks measured_peaks(Device& device) {
  const Peaks peaks = measure_peaks(device);
  const std::pair<const char*, double> all[] = {
      {"peak_ffma_tflops", peaks.ffma_tflops},
      {"peak_mma_f16_tflops", peaks.mma_f16_tflops},
      {"peak_mma_tf32_tflops", peaks.mma_tf32_tflops},
      {"peak_tensor_f16_tflops", peaks.tensor_f16_tflops},
      {"peak_tensor_tf32_tflops", peaks.tensor_tf32_tflops},
      {"peak_tensor_f8_tflops", peaks.tensor_f8_tflops},
      {"peak_copy_tbs", peaks.copy_tbs}};
  for (const auto& [key, value] : all)
    benchmark::AddCustomContext(key, fmt::format("{:.3f}", value));
  fmt::print(
      "measured peaks: FFMA {:.1f}, tensor f16 {:.0f} (mma.sync {:.0f}), tf32 {:.0f} (mma.sync "
      "{:.0f}){} TFLOPS, copy {:.2f} TB/s\n",
      peaks.ffma_tflops, peaks.tensor_f16_tflops, peaks.mma_f16_tflops, peaks.tensor_tf32_tflops,
      peaks.mma_tf32_tflops,
      peaks.tensor_f8_tflops > 0 ? fmt::format(", FP8 {:.0f}", peaks.tensor_f8_tflops) : "",
      peaks.copy_tbs);
  return peaks;
}

// With --only: the process of one job (apart.h).
ExitStatus run_only(const Options& o) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string note;
  const std::unique_ptr<Device> device = choose_device(o, note);
  const std::vector<Job> jobs = plan(o, device->backend());
  const auto job =
      std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return j.name() == o.only; });
  if (job == jobs.end())
    throw UsageError(
        fmt::format("--only '{}': not among the jobs of this command line", printable(o.only)));
  TuningCache cache = read_tuning(o, device->backend(), jobs);
  const auto compiler = o.jit ? make_jit_compiler() : nullptr;
  send_outcome(Runner(*device, o, cache, compiler.get()).run(*job));
  return EXIT_VERIFIED;
}

// What the JSON holds of a run that ends before its time, for a line on stderr.
std::string kept(const OutputFile* json) {
  if (json == nullptr) return "no --json was asked for: the table above is all that is kept";
  if (json->direct()) return "the results until then were written";
  if (json->kept_in().empty()) return "there were no results yet";
  return fmt::format("the results until then are in {}", printable(json->kept_in(), 1000));
}

}  // namespace

ExitStatus run(const Options& o) {
  const auto start = std::chrono::steady_clock::now();
  if (!o.only.empty()) return run_only(o);
  std::string note;
  const std::unique_ptr<Device> device = choose_device(o, note);
  if ((o.alone || o.quick) && device->backend() == Backend::sim)
    throw UsageError(fmt::format("{} times kernels on a GPU, and the simulator has no time",
                                 o.alone ? "--alone" : "--quick"));
  std::string tuned;  // where what is tuned first is kept
  if (o.tune_first) tuned = ", tuned where first met, kept in " + kept_tuning_file(o, *device);
  const std::vector<Job> jobs = plan(o, device->backend());
  const auto compiler = o.jit ? make_jit_compiler() : nullptr;
  TuningCache cache = read_tuning(o, device->backend(), jobs);
  std::optional<OutputFile> file;
  if (!o.json.empty()) file.emplace("--json", o.json);
  OutputFile* const json = file ? &*file : nullptr;

  if (!o.list_benchmarks)
    fmt::print("{}{}{}: {} rungs x problems{}\n", note.empty() ? "" : note + "\n",
               note_on_missing(o, device->backend()), device->name(), jobs.size(), tuned);
  add_context(o, *device);
  if (compiler != nullptr) benchmark::AddCustomContext("jit", compiler->name());
  const bool timed = device->backend() == Backend::gpu && !o.verify_only;
  const Peaks peaks = timed && !o.list_benchmarks ? measured_peaks(*device) : Peaks();

  Runner runner(*device, o, cache, compiler.get());
  Table table(timed                               ? Table::Columns::timing
              : device->backend() == Backend::sim ? Table::Columns::counters
                                                  : Table::Columns::none,
              peaks, o.accuracy);
  Verdict verdict;
  std::string lost, unheard;  // why no further job can run; why stdout takes no more
  Results results(json, [&] { now_kept(kept(json)); });
  now_kept(kept(json));
  int done = 0;
  const bool progress = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
  const auto run_job = [&](benchmark::State& state, const Job& job) {
    if (!lost.empty() || results.error() || !unheard.empty()) {
      results.stop();
      return state.SkipWithError("not run");
    }
    ++done;
    if (const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
        o.time_limit_s > 0 && spent.count() > o.time_limit_s) {
      Outcome left;
      left.rung = job.rung, left.problem = job.problem;
      left.not_run = fmt::format("--time-limit {:g} was over", o.time_limit_s);
      verdict.add(left);
      return report(state, left, o.repeated);
    }
    if (progress) fmt::print(stderr, "[{}/{}] {}\r", done, jobs.size(), job.name());
    now_running(job.name());
    Outcome outcome = o.keep_going || job.rung->apart ? run_apart(o, job) : runner.run(job);
    if ((job.rung->apart || job.rung->diagnose) && !outcome.failed.empty())  // a user's: its fault
      outcome.wrong = std::exchange(outcome.failed, "");
    refuse_above_peak(outcome, peaks);
    now_running("");
    if (progress) fmt::print(stderr, "\033[2K");
    if (outcome.device_lost) lost = fmt::format("{}: {}", job.name(), outcome.failed);
    verdict.add(outcome);
    report(state, outcome, o.repeated);
    try {
      table.add(outcome);
    } catch (const std::system_error& e) {
      errno = e.code().value();
    }
    if (std::ferror(stdout) != 0) unheard = std::strerror(errno);
  };
  for (const Job& job : jobs)
    benchmark::RegisterBenchmark(job.name().c_str(),
                                 [&run_job, job](benchmark::State& state) { run_job(state, job); })
        ->Iterations(1)  // or more: the job's samples, of which there are enough when it ends
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);

  const std::string complaint = run_benchmarks(o, results);
  if (o.list_benchmarks) return EXIT_VERIFIED;
  if (done == 0) throw UsageError(fmt::format("nothing was run: {}", printable(complaint, 300)));
  bool unwritten = false;
  std::string reason = verdict.reason();
  if (!lost.empty()) reason = lost + "; the run ends here, ";
  try {
    if (results.error()) std::rethrow_exception(results.error());
    const bool complete = lost.empty() && unheard.empty();
    if (json != nullptr) complete ? json->finish(results.text()) : json->abandon(results.text());
    if (!lost.empty()) reason += kept(json);
    if (!unheard.empty())
      throw OutputError(
          fmt::format("cannot write to standard output: {}; {}", unheard, kept(json)));
  } catch (const OutputError& e) {
    reason = e.what();
    unwritten = true;
  }
  if (unheard.empty()) fmt::print("\n{}\n", verdict.counts());
  std::fflush(stdout);  // before what stderr says of it
  if (!reason.empty()) fmt::print(stderr, "gemm_bench: {}\n", printable(reason, 2000));
  return unwritten && verdict.status() != EXIT_WRONG ? EXIT_FAILED : verdict.status();
}

}  // namespace gemm
