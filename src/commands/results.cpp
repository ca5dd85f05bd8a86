#include "commands/results.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

namespace gemm {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Writing all entries after each costs time in the square of their number: of large files no more
// than a tenth of the run.
constexpr size_t LARGE = 1 << 20;

void report_timing(benchmark::State& state, const Outcome& o) {
  const Timing& t = *o.timing;
  const auto number = [&state](const std::string& name, double value) {
    state.counters[name] = value;
  };
  const auto spread = [&](const std::string& name, const Spread& s) {
    number(name, s.median), number(name + "_p10", s.p10), number(name + "_p90", s.p90);
  };
  spread("TFLOPS", t.tflops);
  spread("baseline_TFLOPS", t.baseline_tflops);
  spread("ratio", t.ratio);
  number("ratio_uncertainty", t.ratio_uncertainty);
  number("samples", static_cast<double>(t.seconds.size()));
  number("launches_per_sample", t.launches_per_sample);
  number("held", t.held);
  number("baseline_max_error", o.baseline.max_error);
  number("baseline_max_error_roundings", o.baseline.max_error_roundings);
  number("cublas_TFLOPS", o.baseline.cublas_tflops);
  number("cublaslt_TFLOPS", o.baseline.cublaslt_tflops);
  number("sm_clock_mhz", t.conditions.sm_clock_mhz);
  number("sm_clock_min_mhz", t.conditions.sm_clock_min_mhz);
  number("power_w", t.conditions.power_w);
  number("memory_percent", t.conditions.memory_percent);
  number("temperature_c", t.conditions.temperature_c);
  const auto alone = [&](const std::string& prefix, const Alone& a) {
    spread(prefix + "TFLOPS", a.tflops);
    number(prefix + "sm_clock_mhz", a.conditions.sm_clock_mhz);
    number(prefix + "power_w", a.conditions.power_w);
    number(prefix + "memory_percent", a.conditions.memory_percent);
  };
  if (t.alone) {
    alone("alone_", *t.alone);
    alone("alone_baseline_", *t.alone_baseline);
    number("alone_ratio", t.alone_ratio());
  }
}

std::string label_of(const Outcome& o) {
  std::string label;
  if (o.timing) {
    const std::string& throttle = o.timing->conditions.throttle;
    label =
        "baseline " + o.baseline.name + ", throttle " + (throttle.empty() ? "unknown" : throttle);
    if (o.timing->alone) label += ", alone " + o.timing->alone_baseline->name;
  }
  if (!o.not_timed.empty()) label = "not timed: " + o.not_timed;
  if (!o.variant.empty()) label += (label.empty() ? "variant " : "; variant ") + o.variant;
  return label;
}

// The coefficient of variation of zeros is 0 / 0, which JSON has no word for: they do not vary.
void mend_variation(benchmark::BenchmarkReporter::Run& run) {
  if (run.run_type != benchmark::BenchmarkReporter::Run::RT_Aggregate) return;
  const auto mend = [](double& x) { x = std::isfinite(x) ? x : 0; };
  mend(run.real_accumulated_time);
  mend(run.cpu_accumulated_time);
  for (auto& [name, counter] : run.counters) mend(counter.value);
}

// Hands over a sample an iteration, by what its launches took. All in one batch, since nobody knows
// before how many it takes. Statistics over repetitions want equally many of each: one, their mean.
void report_iterations(benchmark::State& state, const std::vector<double>& seconds, bool repeated) {
  const auto samples = static_cast<benchmark::IterationCount>(seconds.size());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  while (state.KeepRunningBatch(repeated ? 1 : std::max<benchmark::IterationCount>(samples, 1)))
    state.SetIterationTime(repeated && samples > 0 ? sum / static_cast<double>(samples) : sum);
}

}  // namespace

void report(benchmark::State& state, const Outcome& o, bool repeated) {
  state.counters["m"] = o.problem.M;
  state.counters["n"] = o.problem.N;
  state.counters["k"] = o.problem.K;
  if (o.problem.batch > 1) state.counters["batch"] = o.problem.batch;
  if (o.problem.groups.count > 0) state.counters["groups"] = o.problem.groups.count;
  if (!o.not_run.empty()) return state.SkipWithError(("not measured: " + o.not_run).c_str());
  if (!o.skipped.empty()) return state.SkipWithError(("skipped: " + o.skipped).c_str());
  if (!o.wrong.empty()) return state.SkipWithError(("wrong: " + o.wrong).c_str());
  if (!o.failed.empty()) return state.SkipWithError(("failed: " + o.failed).c_str());
  state.counters["verified"] = 1;
  state.counters["max_error"] = o.max_error;
  state.counters["max_error_roundings"] = o.max_error_roundings;
  if (o.jit_kernels > 0) {
    state.counters["jit_kernels"] = o.jit_kernels;
    state.counters["jit_ms"] = o.jit_ms;
  }
  report_iterations(state, o.timing ? o.timing->seconds : std::vector<double>{}, repeated);
  if (o.timing) report_timing(state, o);
  if (const std::string label = label_of(o); !label.empty()) state.SetLabel(label);
  if (o.stats) {
    state.counters["blocks"] = o.stats->blocks;
    state.counters["threads_per_block"] = o.stats->threads_per_block;
    state.counters["barriers"] = o.stats->barriers;
    state.counters["collectives"] = o.stats->collectives;
    state.counters["async_copies"] = o.stats->copies;
  }
}

Results::Results(OutputFile* file, std::function<void()> progress)
    : file_(file), progress_(std::move(progress)) {}

std::string Results::text() const { return out_.str() + "\n  ]\n}\n"; }

bool Results::ReportContext(const Context& context) {
  SetOutputStream(&out_);
  return JSONReporter::ReportContext(context);
}

void Results::ReportRuns(const std::vector<Run>& runs) {
  if (stopped_) return;
  std::vector<Run> plain = runs;
  for (Run& run : plain) {
    run.run_name.iterations = run.run_name.time_type = "";
    mend_variation(run);
  }
  JSONReporter::ReportRuns(plain);
  if (file_ == nullptr) return;
  const double start = now();
  if (out_.tellp() > static_cast<std::streamoff>(LARGE) && start < saved_at_ + 10 * saving_took_)
    return;
  try {
    file_->save(text());
  } catch (...) {
    error_ = std::current_exception();
    stop();
  }
  saved_at_ = now();
  saving_took_ = saved_at_ - start;
  progress_();
}

std::string run_benchmarks(const Options& o, Results& results) {
  // The name says what ran, not where it lay. A table of its own, and one way to write a file.
  std::vector<std::string> flags = {"gemm_bench"};
  flags.insert(flags.end(), o.benchmark_flags.begin(), o.benchmark_flags.end());
  flags.insert(flags.end(), {"--benchmark_out=", "--benchmark_display_aggregates_only=false"});
  std::vector<char*> pointers;
  for (std::string& f : flags) pointers.push_back(f.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  std::ostringstream complaint;
  results.SetErrorStream(&complaint);
  benchmark::RunSpecifiedBenchmarks(&results);
  std::string line = complaint.str();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace gemm
