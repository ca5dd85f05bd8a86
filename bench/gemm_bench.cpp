// gemm_bench: verifies and times the ladder. Google Benchmark runs one benchmark a (problem, rung)
// and writes the JSON; this file says what a run of one is, and prints the table.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/cli.h"
#include "harness/inspection_report.h"
#include "harness/nvtx.h"
#include "harness/report.h"
#include "harness/timing.h"
#include "harness/tuning.h"
#include "harness/verify.h"
#include "version.h"

namespace gemm {
namespace {

constexpr int EXIT_WRONG = 1, EXIT_USAGE = 2;
constexpr double ALONE_MS = 1000;  // clock and power settle within 0.1 s; the card's heat does not

struct Job {
  const Rung* rung;
  Problem problem;
  int variant = -1;  // asked for; -1: the rung's own or its tuning's choice
  std::string name() const {
    const std::string asked = variant < 0 ? "" : "/variant:" + rung->variants[variant].name;
    return fmt::format("{}/{}/{}/{}{}", rung->name, to_string(problem.dtype), ops_name(problem),
                       shape_name(problem), asked);
  }
};

// Of a job on a rung with variants: which one runs.
Choice choose(const Job& job, const TuningCache& cache, const Device& device) {
  if (job.variant >= 0) return {job.variant, "asked for by --variant"};
  return choose_variant(*job.rung, job.problem, &cache, device.name(), device.sm_count());
}

// Runs jobs on one device. Jobs that follow each other on the same problem share its matrices,
// references and baselines.
class Runner {
 public:
  Runner(Device& device, const Options& options, const TuningCache& cache)
      : device_(device), options_(options), cache_(cache) {}

  Outcome run(const Job& job) {
    Outcome o;
    o.rung = job.rung;
    o.problem = job.problem;
    o.skipped = unmet_need(*job.rung, job.problem, device_);
    if (!o.skipped.empty()) return o;
    Rung rung = *job.rung;
    if (!rung.variants.empty()) {
      o.choice = choose(job, cache_, device_);
      rung = with_variant(rung, o.choice->variant);
      o.skipped = unmet_need(rung, job.problem, device_);
      if (!o.skipped.empty()) return o;
    }
    const NvtxRange range(job.name());
    prepare(job.problem);
    sim::clear_launches();
    o.failure = verifier_->verify(rung);
    if (!o.failure.empty()) return o;
    const auto keep_errors = [&o](const CheckResult& r) {
      o.max_error = r.max_error, o.max_error_roundings = r.max_error_roundings;
    };
    keep_errors(verifier_->uniform());
    if (device_.backend() == Backend::sim) {
      o.stats = sim::main_launch();
    } else if (!options_.verify_only && flops(job.problem) > 0) {
      try {
        if (timed_ == nullptr)
          timed_ = make_timed_problem(
              device_, job.problem,
              {.l2_cold = options_.l2_cold, .alone_ms = options_.alone ? ALONE_MS : 0},
              verifier_->reference());
        o.timing = timed_->time(rung);
        o.baseline = timed_->baseline();
        keep_errors(o.timing->after);
      } catch (const LaunchError& e) {
        o.failure = e.what();
      }
      if (o.timing && !o.timing->after.ok())
        o.failure = "after timing: " + describe(o.timing->after);
    }
    return o;
  }

 private:
  void prepare(const Problem& p) {
    if (verifier_ != nullptr && problem_ == p) return;
    verifier_.reset();  // before the next one is allocated
    timed_.reset();
    problem_ = p;
    verifier_ = std::make_unique<Verifier>(device_, p, Layouts::also_padded);
  }

  Device& device_;
  const Options& options_;
  const TuningCache& cache_;
  Problem problem_;
  std::unique_ptr<Verifier> verifier_;
  std::unique_ptr<TimedProblem> timed_;
};

// What --tune measures by default: one shape a bucket, and those whose rows are no 16-byte groups.
std::vector<Shape> tuned_shapes() {
  std::vector<Shape> shapes;
  for (const int n : {512, 1000, 1024, 2048, 4096, 4097, 8192}) shapes.push_back({n, n, n});
  for (const Shape& s : {Shape{16, 4096, 4096},
                         {64, 4096, 14336},
                         {4096, 64, 4096},
                         {128, 128, 16384},
                         {16384, 16384, 512}})
    shapes.push_back(s);
  return shapes;
}

// One job a variant that --variant names; none of a rung without it.
std::vector<Job> jobs_of(const Rung* rung, const Problem& p, const std::string& variant) {
  if (variant.empty() || (variant == "all" && rung->variants.empty())) return {{rung, p}};
  std::vector<Job> jobs;
  for (size_t i = 0; i < rung->variants.size(); ++i)
    if (variant == "all" || variant == rung->variants[i].name)
      jobs.push_back({rung, p, static_cast<int>(i)});
  return jobs;
}

std::vector<Job> plan(const Options& o, Backend backend) {
  std::vector<Shape> shapes = o.shapes;
  if (shapes.empty()) {
    if (o.tune)
      shapes = tuned_shapes();
    else if (backend == Backend::gpu)
      shapes = {{4096, 4096, 4096}};
    else
      shapes = {{256, 256, 256}, {129, 65, 250}};
  }
  const std::vector<const Rung*> chosen = select_rungs(o.kernels, o.dtypes, backend);
  if (!o.variant.empty() && o.variant != "all") {
    std::vector<std::string> known;
    for (const Rung* r : chosen)
      for (const RungVariant& v : r->variants)
        if (std::count(known.begin(), known.end(), v.name) == 0) known.push_back(v.name);
    if (std::count(known.begin(), known.end(), o.variant) == 0)
      throw UsageError(fmt::format(
          "unknown variant '{}': {}", o.variant,
          known.empty() ? "these rungs have none"
                        : fmt::format("choose from '{}', or all", fmt::join(known, "', '"))));
  }
  std::vector<Job> jobs;
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16})
    for (const auto& [op_a, op_b] : o.ops)
      for (const Shape& s : shapes) {
        const std::vector<const Rung*> here = select_rungs(s.rungs, {}, backend);
        const Problem p{.dtype = dtype,
                        .M = s.M,
                        .N = s.N,
                        .K = s.K,
                        .op_a = op_a,
                        .op_b = op_b,
                        .alpha = o.alpha,
                        .beta = o.beta,
                        .ld_pad = o.ld_pad};
        for (const Rung* r : chosen)
          if (r->dtype == dtype && std::count(here.begin(), here.end(), r) > 0)
            for (const Job& job : jobs_of(r, p, o.variant)) jobs.push_back(job);
      }
  return jobs;
}

void list(Backend backend) {
  const std::vector<const Rung*> all = rungs(backend);
  for (size_t i = 0; i < all.size();) {
    const Rung& r = *all[i];
    std::string dtypes;
    for (; i < all.size() && all[i]->name == r.name; ++i)
      dtypes += (dtypes.empty() ? "" : ",") + to_string(all[i]->dtype);
    fmt::print("{:<5} {:<22} {:<13} {}\n", r.id, r.name, dtypes, r.idea);
  }
}

UsageError cannot_write(const std::string& json) {
  return UsageError(
      fmt::format("cannot write '{}': --json wants a file in an existing, writable folder", json));
}

// Counters and label of one run, under the names that the scripts read.
void report(benchmark::State& state, const Outcome& o) {
  state.counters["m"] = o.problem.M;
  state.counters["n"] = o.problem.N;
  state.counters["k"] = o.problem.K;
  if (!o.skipped.empty()) return state.SkipWithError(("skipped: " + o.skipped).c_str());
  if (!o.failure.empty()) return state.SkipWithError(("wrong: " + o.failure).c_str());
  state.counters["verified"] = 1;
  state.counters["max_error"] = o.max_error;
  state.counters["max_error_roundings"] = o.max_error_roundings;
  state.SetIterationTime(0);
  std::string label;
  if (o.timing) {
    const Timing& t = *o.timing;
    state.SetIterationTime(flops(o.problem) / t.tflops.median * 1e-12);
    state.counters["TFLOPS"] = t.tflops.median;
    state.counters["TFLOPS_p10"] = t.tflops.p10;
    state.counters["TFLOPS_p90"] = t.tflops.p90;
    state.counters["baseline_TFLOPS"] = t.baseline_tflops.median;
    state.counters["baseline_TFLOPS_p10"] = t.baseline_tflops.p10;
    state.counters["baseline_TFLOPS_p90"] = t.baseline_tflops.p90;
    state.counters["ratio"] = t.ratio.median;
    state.counters["ratio_p10"] = t.ratio.p10;
    state.counters["ratio_p90"] = t.ratio.p90;
    state.counters["samples"] = t.samples;
    state.counters["launches_per_sample"] = t.launches_per_sample;
    state.counters["held"] = t.held;
    state.counters["baseline_max_error"] = o.baseline.max_error;
    state.counters["baseline_max_error_roundings"] = o.baseline.max_error_roundings;
    state.counters["cublas_TFLOPS"] = o.baseline.cublas_tflops;
    state.counters["cublaslt_TFLOPS"] = o.baseline.cublaslt_tflops;
    state.counters["sm_clock_mhz"] = t.conditions.sm_clock_mhz;
    state.counters["sm_clock_min_mhz"] = t.conditions.sm_clock_min_mhz;
    state.counters["power_w"] = t.conditions.power_w;
    state.counters["memory_percent"] = t.conditions.memory_percent;
    state.counters["temperature_c"] = t.conditions.temperature_c;
    label = "baseline " + o.baseline.name + ", throttle " +
            (t.conditions.throttle.empty() ? "unknown" : t.conditions.throttle);
    const auto report_alone = [&state](const std::string& prefix, const Alone& alone) {
      state.counters[prefix + "TFLOPS"] = alone.tflops.median;
      state.counters[prefix + "TFLOPS_p10"] = alone.tflops.p10;
      state.counters[prefix + "TFLOPS_p90"] = alone.tflops.p90;
      state.counters[prefix + "sm_clock_mhz"] = alone.conditions.sm_clock_mhz;
      state.counters[prefix + "power_w"] = alone.conditions.power_w;
      state.counters[prefix + "memory_percent"] = alone.conditions.memory_percent;
    };
    if (t.alone) {
      report_alone("alone_", *t.alone);
      report_alone("alone_baseline_", *t.alone_baseline);
      state.counters["alone_ratio"] = t.alone_ratio();
      label += ", alone " + t.alone_baseline->name;
    }
  }
  if (o.choice)
    label += (label.empty() ? "variant " : "; variant ") + o.rung->variants[o.choice->variant].name;
  if (!label.empty()) state.SetLabel(label);
  if (o.stats) {
    state.counters["blocks"] = o.stats->blocks;
    state.counters["threads_per_block"] = o.stats->threads_per_block;
    state.counters["barriers"] = o.stats->barriers;
    state.counters["collectives"] = o.stats->collectives;
    state.counters["async_copies"] = o.stats->copies;
  }
}

// Google Benchmark's display: nothing, for the table prints each rung as it ends.
class Silent : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Google Benchmark's JSON with the entries' plain names: it would append
// "/iterations:1/manual_time" to each.
class PlainNames : public benchmark::JSONReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> plain = runs;
    for (Run& run : plain) run.run_name.iterations = run.run_name.time_type = "";
    JSONReporter::ReportRuns(plain);
  }
};

// --inspect: the traced build of each rung, in place of a benchmark.
int inspect(Options o, const std::string& command) {
  constexpr size_t FEW = 4;  // inspections whose lines are shown
  if (o.shapes.empty()) o.shapes = {{256, 256, 256}};
  const std::vector<Job> jobs = plan(o, Backend::sim);
  // Written at the end; a file that cannot be is refused now.
  if (!o.json.empty() && !std::ofstream(o.json, std::ios::app)) throw cannot_write(o.json);
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  std::unique_ptr<Inspector> inspector;
  InspectionTable table;
  std::vector<Inspection> few;
  Problem problem;
  bool wrong = false;
  for (const Job& job : jobs) {
    if (inspector == nullptr || problem != job.problem) {
      inspector.reset();  // before the next one is allocated
      try {
        inspector = std::make_unique<Inspector>(problem = job.problem);
      } catch (const std::bad_alloc&) {
        throw UsageError(fmt::format("not enough memory for {}: choose a smaller --size or --shape",
                                     shape_name(job.problem)));
      }
    }
    const Rung* const traced = find_rung(Backend::sim_traced, job.rung->name, job.rung->dtype);
    Rung chosen = *traced;
    if (!chosen.variants.empty())
      chosen = with_variant(chosen, choose(job, {}, *make_sim_device()).variant);
    Inspection i = inspector->inspect(
        chosen, o.traced_blocks.value_or(default_traced_blocks(job.problem)), o.watched);
    const int warps = (i.threads_per_block + 31) / 32;
    if (i.watched && (i.watched->block >= i.blocks || i.watched->warp >= warps))
      throw UsageError(fmt::format("no warp {} of block {} in {}: it has {} blocks of {} warps",
                                   i.watched->warp, i.watched->block, job.name(), i.blocks, warps));
    table.add(i);
    wrong |= !i.findings.empty();
    entries.push_back(to_json(i));
    if (jobs.size() <= FEW) few.push_back(std::move(i));
  }
  for (const Inspection& i : few) {
    print_lines(i);
    print_requests(i);
  }
  if (!o.json.empty()) {
    nlohmann::ordered_json file;
    file["context"] = {{"command_line", command},
                       {"git_revision", GIT_REVISION},
                       {"backend", "simulator, traced"},
                       {"build", BUILD_DESCRIPTION}};
    file["benchmarks"] = std::move(entries);
    std::ofstream(o.json) << file.dump(2) << "\n";
  }
  return wrong ? EXIT_WRONG : 0;
}

// --explain: which variant would run, and why.
int explain(const std::vector<Job>& jobs, const TuningCache& cache, const Device& device) {
  for (const Job& job : jobs) {
    const std::string why_not = unmet_need(*job.rung, job.problem, device);
    fmt::print("{}: ", job.name());
    if (!why_not.empty()) {
      fmt::print("would be skipped: {}\n", why_not);
    } else if (job.rung->variants.empty()) {
      fmt::print("has no variants\n");
    } else {
      const Choice c = choose(job, cache, device);
      fmt::print("{}\n    {}\n", job.rung->variants[c.variant].name, c.why);
    }
  }
  return 0;
}

// The variants of a rung that take the problem and give the right result, in order. Prints those
// that are wrong.
std::vector<int> right_variants(Device& device, const Job& job, bool& wrong) {
  Verifier verifier(device, job.problem, Layouts::also_padded);
  std::vector<int> right;
  for (size_t i = 0; i < job.rung->variants.size(); ++i) {
    const Rung one = with_variant(*job.rung, static_cast<int>(i));
    if (!unmet_need(one, job.problem, device).empty()) continue;
    const std::string failure = verifier.verify(one);
    if (failure.empty())
      right.push_back(static_cast<int>(i));
    else
      fmt::print("{} {}: WRONG: {}\n", job.name(), one.variants[0].name, failure);
    wrong |= !failure.empty();
  }
  return right;
}

// --tune: times the variants of each rung at each shape and keeps what was found.
int tune(const Options& o, Device& device, const std::string& file) {
  if (device.backend() == Backend::sim)
    throw UsageError(
        "--tune times variants on a GPU, and the simulator has no time: there is "
        "nothing to tune; --explain and --variant work here");
  std::vector<Job> jobs = plan(o, device.backend());
  std::erase_if(jobs, [](const Job& job) { return job.rung->variants.empty(); });
  if (jobs.empty())
    throw UsageError(fmt::format("--tune: no rung of '{}' has variants", o.kernels));
  TuningCache().write(file);  // a file that cannot be written is refused before the work
  fmt::print("{}: {} rungs x problems, kept in {}\n", device.name(), jobs.size(), file);
  bool wrong = false;
  for (const Job& job : jobs) {
    if (!unmet_need(*job.rung, job.problem, device).empty() || flops(job.problem) == 0) continue;
    const NvtxRange range(job.name());
    std::vector<int> right;
    std::vector<double> tflops;
    try {
      right = right_variants(device, job, wrong);
      if (right.empty()) continue;
      std::vector<Rung> entrants;
      for (const int i : right) entrants.push_back(with_variant(*job.rung, i));
      const TimingOptions options{.l2_cold = o.l2_cold, .lt_heuristics = 0};
      tflops = make_timed_problem(device, job.problem, options)->compare(entrants);
    } catch (const std::bad_alloc&) {
      fmt::print("{}: skipped: out of memory\n", job.name());
      continue;
    } catch (const LaunchError& e) {
      fmt::print("{}: WRONG: {}\n", job.name(), e.what());
      wrong = true;
      continue;
    }
    TunedProblem tuned{device.name(), job.rung->name, job.problem, {}, GIT_REVISION};
    for (size_t i = 0; i < right.size(); ++i)
      tuned.variants.push_back({job.rung->variants[right[i]].name, tflops[i]});
    std::sort(tuned.variants.begin(), tuned.variants.end(),
              [](const TimedVariant& a, const TimedVariant& b) { return a.tflops > b.tflops; });
    TuningCache cache;
    cache.put(tuned);
    cache.write(file);  // after each: an end by force loses nothing

    const Choice own =
        choose_variant(*job.rung, job.problem, nullptr, device.name(), device.sm_count());
    const std::string& untuned = job.rung->variants[own.variant].name;
    fmt::print("\n{}\n", job.name());
    for (const TimedVariant& v : tuned.variants)
      fmt::print("  {:>8.2f} TFLOPS {:>6.1f}%  {}{}\n", v.tflops,
                 100 * v.tflops / tuned.variants[0].tflops, v.name,
                 v.name == untuned ? "   <- the rung's own choice" : "");
    std::fflush(stdout);
  }
  return wrong ? EXIT_WRONG : 0;
}

std::unique_ptr<Device> choose_device(const Options& o, std::string& chosen_because) {
  std::string why_not;
  if (o.backend != Backend::sim) {
    try {
      std::unique_ptr<Device> gpu = make_gpu_device(why_not, o.device);
      if (gpu != nullptr) return gpu;
    } catch (const std::out_of_range& e) {
      throw UsageError(fmt::format("--device {}: {}", o.device, e.what()));
    }
    if (o.device > 0)
      throw UsageError(fmt::format("--device {}: no GPU ({}); the simulator is one device, 0",
                                   o.device, why_not));
    if (o.backend == Backend::gpu)
      throw UsageError("no GPU: " + why_not + "; --backend sim runs without one");
    chosen_because = fmt::format(
        "no GPU ({}): running in the simulator, which verifies but does not time", why_not);
  }
  return make_sim_device();
}

int run(int argc, char** argv) {
  const Options options = parse_command_line(argc, argv);
  if (options.help) {
    fmt::print("{}", options.help_text);
    return 0;
  }
  std::string command = "./gemm_bench";  // without the folders of the machine that it ran on
  for (int i = 1; i < argc; ++i)
    command += " " + (argv[i] == options.json ? std::filesystem::path(argv[i]).filename().string()
                                              : argv[i]);
  if (options.inspect && !options.list) return inspect(options, command);
  std::string note;
  const std::unique_ptr<Device> device = choose_device(options, note);
  if (options.list) {
    list(device->backend());
    return 0;
  }
  const bool tuned = device->backend() == Backend::gpu && !options.no_tune_cache;
  const std::string cache_file =
      options.tune_cache.empty() ? default_tuning_cache() : options.tune_cache;
  if (options.tune) {
    if (cache_file.empty())
      throw UsageError(
          "--tune: neither XDG_CACHE_HOME nor HOME says where to keep the results; "
          "--tune-cache names a file");
    return tune(options, *device, cache_file);
  }
  if (options.alone && device->backend() == Backend::sim)
    throw UsageError("--alone times kernels on a GPU, and the simulator has no time");
  const std::vector<Job> jobs = plan(options, device->backend());
  const bool any = std::any_of(jobs.begin(), jobs.end(),
                               [](const Job& job) { return !job.rung->variants.empty(); });
  const TuningCache cache = tuned && any ? TuningCache::read(cache_file) : TuningCache();
  if (options.explain) {
    if (!note.empty()) fmt::print("{}\n", note);
    return explain(jobs, cache, *device);
  }
  const std::string partial =
      options.json + ".partial";  // renamed at the end: an aborted run leaves the old file alone
  if (!options.json.empty() && !std::ofstream(partial)) throw cannot_write(options.json);

  fmt::print("{}{}: {} rungs x problems\n", note.empty() ? "" : note + "\n", device->name(),
             jobs.size());
  Peaks peaks;
  const bool timed = device->backend() == Backend::gpu && !options.verify_only;
  benchmark::AddCustomContext("command_line", command);
  benchmark::AddCustomContext("git_revision", GIT_REVISION);
  benchmark::AddCustomContext("backend", device->backend() == Backend::gpu ? "gpu" : "simulator");
  benchmark::AddCustomContext("build", BUILD_DESCRIPTION);
  if (device->backend() == Backend::gpu) {
    for (const auto& [key, value] : describe_gpu(*device)) benchmark::AddCustomContext(key, value);
    benchmark::AddCustomContext("l2", options.l2_cold ? "cold" : "warm");
  }
  if (timed) {
    peaks = measure_peaks(*device);
    const std::pair<const char*, double> all[] = {
        {"peak_ffma_tflops", peaks.ffma_tflops},
        {"peak_mma_f16_tflops", peaks.mma_f16_tflops},
        {"peak_mma_tf32_tflops", peaks.mma_tf32_tflops},
        {"peak_tensor_f16_tflops", peaks.tensor_f16_tflops},
        {"peak_tensor_tf32_tflops", peaks.tensor_tf32_tflops},
        {"peak_copy_tbs", peaks.copy_tbs}};
    for (const auto& [key, value] : all)
      benchmark::AddCustomContext(key, fmt::format("{:.3f}", value));
    fmt::print(
        "measured peaks: FFMA {:.1f}, tensor f16 {:.0f} (mma.sync {:.0f}), tf32 {:.0f} (mma.sync "
        "{:.0f}) TFLOPS, copy {:.2f} TB/s\n",
        peaks.ffma_tflops, peaks.tensor_f16_tflops, peaks.mma_f16_tflops, peaks.tensor_tf32_tflops,
        peaks.mma_tf32_tflops, peaks.copy_tbs);
  }

  Runner runner(*device, options, cache);
  Table table(peaks, options.accuracy);
  int wrong = 0, verified = 0, done = 0;
  std::string out_of_memory;
  const bool progress = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
  for (const Job& job : jobs)
    benchmark::RegisterBenchmark(
        job.name().c_str(),
        [&, job](benchmark::State& state) {
          for ([[maybe_unused]] auto _ : state) {
            ++done;
            if (progress) fmt::print(stderr, "[{}/{}] {}\r", done, jobs.size(), job.name());
            Outcome o;
            try {
              o = runner.run(job);
            } catch (const std::bad_alloc&) {
              out_of_memory = shape_name(job.problem);
              o.rung = job.rung, o.problem = job.problem, o.skipped = "out of memory";
            }
            if (progress) fmt::print(stderr, "\033[2K");
            wrong += !o.failure.empty();
            verified += o.failure.empty() && o.skipped.empty();
            table.add(o);
            report(state, o);
          }
        })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);

  // The JSON says what ran, not where it lay.
  std::vector<std::string> flags = {std::filesystem::path(argv[0]).filename()};
  if (!options.json.empty()) {
    flags.push_back("--benchmark_out=" + partial);
    flags.push_back("--benchmark_out_format=json");
  }
  flags.insert(flags.end(), options.benchmark_flags.begin(), options.benchmark_flags.end());
  std::vector<char*> pointers;
  for (std::string& f : flags) pointers.push_back(f.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1)
    throw UsageError(
        fmt::format("unknown argument '{}': not a flag of Google Benchmark", pointers[1]));
  Silent silent;
  PlainNames json;
  benchmark::RunSpecifiedBenchmarks(&silent, options.json.empty() ? nullptr : &json);
  if (!options.json.empty()) std::filesystem::rename(partial, options.json);

  if (done > 0)
    fmt::print("\n{} verified, {} wrong, {} skipped\n", verified, wrong, done - verified - wrong);
  if (wrong > 0) return EXIT_WRONG;
  if (!out_of_memory.empty())
    throw UsageError(
        fmt::format("not enough memory on {} for {}: choose a smaller --size or --shape",
                    device->name(), out_of_memory));
  return 0;
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  try {
    return gemm::run(argc, argv);
  } catch (const gemm::UsageError& e) {
    fmt::print(stderr, "gemm_bench: {}\n", e.what());
    return gemm::EXIT_USAGE;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gemm_bench: {}\n", e.what());
    return gemm::EXIT_USAGE;
  }
}
