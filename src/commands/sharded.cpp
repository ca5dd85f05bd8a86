#include "commands/sharded.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <set>

#include "commands/jobs.h"
#include "commands/results.h"
#include "commands/signals.h"
#include "harness/known_rungs.h"
#include "harness/output_file.h"
#include "harness/samples.h"
#include "harness/sharded_matrices.h"
#include "harness/text.h"
#include "harness/timing.h"
#include "harness/verify.h"
#include "sim/inspect.h"
#include "version.h"

namespace gemm {
namespace {

// One rung, in one of its ways, on one problem.
struct ShardedJob {
  const ShardedRung* rung;
  int variant;  // ANY_VARIANT: the rung chooses
  ShardedProblem problem;

  std::string variant_name() const { return variant == ANY_VARIANT ? "" : rung->variants[variant]; }

  std::string id() const { return rung->id + (variant == ANY_VARIANT ? "" : " " + variant_name()); }
  std::string name() const {
    const ShardedProblem& p = problem;
    return fmt::format("{}/{}/n{}/{}/{}x{}x{}/gpus:{}{}", rung->name, to_string(p.dtype),
                       p.op_b == Op::N ? 'n' : 't', name_of(p.collective), p.M, p.N, p.K, p.ranks,
                       variant == ANY_VARIANT ? "" : "/variant:" + variant_name());
  }
};

// What became of a job.
struct ShardedOutcome {
  std::string skipped, wrong, failed;  // all empty: it is right
  std::vector<double> ms;              // by sample; empty: not timed
};

// Rungs of "m1", "m1-m3", "m03_peer_copies" or "all".
std::vector<const ShardedRung*> select(const std::string& spec, Backend backend) {
  const std::vector<const ShardedRung*> all = sharded_rungs(backend);
  std::vector<std::string> ids;
  for (const ShardedRung* r : all)
    if (ids.empty() || ids.back() != r->id) ids.push_back(r->id);
  const auto place = [&](const std::string& word) {
    for (const ShardedRung* r : all)
      if (r->id == word || r->name == word)
        return std::find(ids.begin(), ids.end(), r->id) - ids.begin();
    if (find_not_built(backend, word) || ids.empty())
      throw UsageError(fmt::format(
          "{} is not built yet: scripts/bench.sh --gpus 2 --kernel {} builds and runs it",
          printable(word), printable(word)));
    throw UsageError(fmt::format(
        "unknown kernel '{}' of several GPUs: choose from {}, a range such as {}-{}, all",
        printable(word), fmt::join(ids, ", "), ids.front(), ids.back()));
  };
  std::set<std::string> chosen;
  std::istringstream words(spec);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "all" && !ids.empty()) {
      chosen.insert(ids.begin(), ids.end());
      continue;
    }
    const size_t dash = word.find('-');
    const auto from = place(word.substr(0, dash));
    const auto to = dash == std::string::npos ? from : place(word.substr(dash + 1));
    if (to < from) throw UsageError(fmt::format("empty range '{}'", printable(word)));
    chosen.insert(ids.begin() + from, ids.begin() + to + 1);
  }
  std::vector<const ShardedRung*> result;
  for (const ShardedRung* r : all)
    if (chosen.contains(r->id)) result.push_back(r);
  return result;
}

std::vector<Shape> default_shapes(Backend backend) {
  if (backend == Backend::gpu)
    return {{4096, 4096, 4096}, {8192, 8192, 8192}, {2048, 8192, 8192}, {8192, 28672, 8192}};
  return {{256, 256, 256}, {300, 136, 200}};
}

std::vector<ShardedJob> plan_sharded(const Options& o, Backend backend) {
  const std::vector<const ShardedRung*> rungs = select(o.kernels, backend);
  const std::vector<Shape> shapes = o.shapes.empty() ? default_shapes(backend) : o.shapes;
  std::vector<DType> dtypes = o.dtypes;
  if (dtypes.empty()) dtypes = {DType::f16, DType::bf16};
  std::vector<ShardedJob> jobs;
  std::set<std::string> variants;
  for (const Shape& s : shapes)
    for (const Collective collective :
         {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce})
      for (const DType dtype : dtypes)
        for (const auto& [op_a, op_b] : o.ops) {
          if (op_a == Op::T)
            throw UsageError("--gpus shards the rows of A as stored: want --op nn, nt or both");
          for (const ShardedRung* r : rungs) {
            if (r->dtype != dtype || r->collective != collective) continue;
            const ShardedProblem p{collective, dtype, o.gpus, s.M, s.N, s.K, op_b};
            // By itself a rung chooses; "all" runs each of its ways. Of m1 both are wanted: they are the
            // baselines.
            const bool each = !o.variant.empty() || r->collectives;
            if (r->variants.empty() || !each) jobs.push_back({r, ANY_VARIANT, p});
            for (int v = 0; each && v < static_cast<int>(r->variants.size()); ++v) {
              variants.insert(r->variants[v]);
              if (o.variant.empty() || o.variant == "all" || o.variant == r->variants[v])
                jobs.push_back({r, v, p});
            }
          }
        }
  if (!o.variant.empty() && o.variant != "all" && !variants.contains(o.variant))
    throw UsageError(fmt::format("unknown variant '{}': choose from '{}', or all",
                                 printable(o.variant), fmt::join(variants, "', '")));
  std::set<std::string> seen;  // what is named twice runs once
  std::erase_if(jobs, [&](const ShardedJob& job) { return !seen.insert(job.name()).second; });
  if (jobs.empty()) throw UsageError("no rung of several GPUs has this type: want f16 or bf16");
  return jobs;
}

// Times contenders by turns: a sample of each, and again. Milliseconds of a call, of the rank that
// takes longest.
class ShardedTimer {
 public:
  explicit ShardedTimer(Fabric& fabric) : fabric_(fabric) {}

  void add(std::function<void()> enqueue) { contenders_.push_back({std::move(enqueue), 1, {}}); }
  void run(int rounds, double sample_ms) {
    for (Contender& c : contenders_) {
      sample(c);  // warms up: modules, buffers, NCCL's channels
      c.calls = std::clamp(static_cast<int>(std::ceil(sample_ms / sample(c))), 3, 200);
    }
    for (int round = 0; round < rounds; ++round)
      for (Contender& c : contenders_) c.ms.push_back(sample(c));
  }
  const std::vector<double>& ms(size_t i) const { return contenders_[i].ms; }

 private:
  struct Contender {
    std::function<void()> enqueue;
    int calls;
    std::vector<double> ms;
  };

  double sample(const Contender& c) {
    fabric_.join_ranks();
    std::vector<Fabric::Event> from, to;
    for (int rank = 0; rank < fabric_.ranks(); ++rank)
      from.push_back(fabric_.record(fabric_.compute(rank)));
    for (int call = 0; call < c.calls; ++call) c.enqueue();
    for (int rank = 0; rank < fabric_.ranks(); ++rank)
      to.push_back(fabric_.record(fabric_.compute(rank)));
    fabric_.synchronize();
    double longest = 0;
    for (int rank = 0; rank < fabric_.ranks(); ++rank)
      longest = std::max(longest, fabric_.milliseconds(from[rank], to[rank]));
    return longest / c.calls;
  }

  Fabric& fabric_;
  std::vector<Contender> contenders_;
};

// The two parts of which a sharded product consists, each by itself: the collective alone, and the GEMM
// alone. The longer one is the bound.
struct Parts {
  std::vector<double> wire_ms, gemm_ms;
};

// All jobs on one problem: verified one after the other, then timed by turns.
class ShardedRunner {
 public:
  ShardedRunner(std::vector<Device*> devices, Fabric& fabric, const Options& o)
      : devices_(std::move(devices)), fabric_(fabric), options_(o) {}

  std::map<std::string, ShardedOutcome> run(const std::vector<ShardedJob>& jobs) {
    std::map<std::string, ShardedOutcome> outcomes;
    const ShardedProblem& p = jobs.front().problem;
    parts_ = {};
    ShardedMatrices matrices(devices_, fabric_, p, options_.ld_pad);
    std::vector<const ShardedJob*> right;
    for (const ShardedJob& job : jobs) {
      now_running(job.name());
      ShardedOutcome& o = outcomes[job.name()];
      o.skipped = unmet(*job.rung);
      if (!o.skipped.empty()) continue;
      try {
        o.wrong =
            verify_sharded(*job.rung, job.variant, p, fabric_, matrices, options_.quick ? 1 : 2);
        if (o.wrong.empty()) right.push_back(&job);
      } catch (const LaunchError& e) {
        o.failed = e.what();
      }
    }
    if (fabric_.backend() == Backend::gpu && !options_.verify_only && !right.empty())
      time(right, p, matrices, outcomes);
    now_running("");
    return outcomes;
  }
  const Parts& parts() const { return parts_; }

 private:
  std::string unmet(const ShardedRung& rung) const {
    std::string why;
    if (fabric_.backend() == Backend::gpu)
      why = unmet_arch(rung.needs, devices_[0]->sm(), devices_[0]->code());
    if (why.empty() && rung.collectives) why = fabric_.without_collectives();
    return why;
  }

  void time(const std::vector<const ShardedJob*>& jobs, const ShardedProblem& p,
            ShardedMatrices& matrices, std::map<std::string, ShardedOutcome>& outcomes) {
    matrices.fill(Inputs::uniform, SEED);
    const ShardedCall call = matrices.call();
    std::vector<std::unique_ptr<ShardedGemm>> gemms;
    ShardedTimer timer(fabric_);
    for (const ShardedJob* job : jobs) {
      gemms.push_back(job->rung->make(p, fabric_, job->variant));
      timer.add([&call, gemm = gemms.back().get()] { gemm->enqueue(call); });
    }
    // The parts. The GEMM reads an A of all rows without NaN, which take less energy.
    std::vector<SharedMemory> all, send, out;
    const bool gather = p.collective == Collective::all_gather;
    const bool reduce = p.collective == Collective::all_reduce;
    const Shards shards = p.shards();
    const size_t size = element_size(whole_problem(p, 0), Operand::A);
    const size_t part = size * shards.each() * (gather ? p.K : p.N);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (int rank = 0; rank < p.ranks; ++rank) {
      all.emplace_back(fabric_, rank, part * p.ranks, "all parts");
      send.emplace_back(fabric_, rank, reduce ? part * p.ranks : part, "what is sent or kept");
      out.emplace_back(fabric_, rank, size * p.M * p.N, "C");
      from.push_back(gather ? send[rank].as<void>() : all[rank].as<void>());
      to.push_back(gather ? all[rank].as<void>() : send[rank].as<void>());
      for (int shard = 0; gather && shard < p.ranks; ++shard)
        fabric_.copy(fabric_.compute(rank),
                     {all[rank].as<char>() + shard * part, static_cast<int64_t>(size) * p.K,
                      call[shard].A, static_cast<int64_t>(size) * call[shard].lda,
                      static_cast<int64_t>(size) * p.K, shards.rows(shard)});
    }
    const Rung* gemm = nullptr;
    for (const Rung* r : rungs(Backend::gpu))
      if (r->dispatches && r->dtype == p.dtype) gemm = r;
    timer.add([&] {
      for (int rank = 0; rank < p.ranks; ++rank) {
        GemmCall one{.M = p.M,
                     .N = p.N,
                     .K = p.K,
                     .A = gather ? all[rank].as<void>() : call[rank].A,
                     .lda = gather ? p.K : call[rank].lda,
                     .B = call[rank].B,
                     .ldb = call[rank].ldb,
                     .C = out[rank].as<void>(),
                     .ldc = p.N};
        one.op_b = p.op_b;
        one.stream = fabric_.compute(rank);
        gemm->launch(one);
      }
    });
    const bool wire = fabric_.without_collectives().empty();
    if (wire)
      timer.add([&] {
        gather   ? fabric_.all_gather(from, to, part)
        : reduce ? fabric_.all_reduce(from, to, p.M * int64_t{p.N}, info(p.dtype).out)
                 : fabric_.reduce_scatter(from, to, part / size, info(p.dtype).out);
      });
    timer.run(options_.quick ? 7 : 21, 10);
    for (size_t i = 0; i < jobs.size(); ++i) outcomes[jobs[i]->name()].ms = timer.ms(i);
    parts_.gemm_ms = timer.ms(jobs.size());
    if (wire) parts_.wire_ms = timer.ms(jobs.size() + 1);
    // What was timed is right, too.
    for (size_t i = 0; i < jobs.size(); ++i) {
      matrices.fill(Inputs::uniform, SEED);
      gemms[i]->enqueue(call);
      fabric_.synchronize();
      outcomes[jobs[i]->name()].wrong = matrices.check(Inputs::uniform, SEED);
    }
  }

  const std::vector<Device*> devices_;
  Fabric& fabric_;
  const Options& options_;
  Parts parts_;
};

// Ratios of one list over another, sample by sample.
std::vector<double> ratios(const std::vector<double>& over, const std::vector<double>& under) {
  std::vector<double> result;
  for (size_t i = 0; i < over.size() && i < under.size(); ++i) result.push_back(over[i] / under[i]);
  return result;
}

// The baseline among the outcomes: the fastest of the rungs with collectives, as they take turns with
// the GEMM. Empty: none was timed.
std::vector<double> serial(const std::vector<ShardedJob>& jobs,
                           const std::map<std::string, ShardedOutcome>& outcomes) {
  std::vector<double> best;
  for (const ShardedJob& job : jobs) {
    const std::vector<double>& ms = outcomes.at(job.name()).ms;
    if (!job.rung->collectives || ms.empty()) continue;
    if (best.empty() || spread(ms).median < spread(best).median) best = ms;
  }
  return best;
}

// One problem's jobs and what is known of them.
struct Group {
  std::vector<ShardedJob> jobs;
  bool done = false;
  std::map<std::string, ShardedOutcome> outcomes;
  Parts parts;
};

void report_sharded(benchmark::State& state, const ShardedJob& job, const Group& group) {
  const ShardedOutcome& o = group.outcomes.at(job.name());
  const ShardedProblem& p = job.problem;
  state.counters["m"] = p.M, state.counters["n"] = p.N, state.counters["k"] = p.K;
  state.counters["gpus"] = p.ranks;
  if (!o.skipped.empty()) return state.SkipWithError(("skipped: " + o.skipped).c_str());
  if (!o.wrong.empty()) return state.SkipWithError(("wrong: " + o.wrong).c_str());
  if (!o.failed.empty()) return state.SkipWithError(("failed: " + o.failed).c_str());
  state.counters["verified"] = 1;
  const double sum = std::accumulate(o.ms.begin(), o.ms.end(), 0.0);
  const auto samples = std::max<benchmark::IterationCount>(1, std::ssize(o.ms));
  while (state.KeepRunningBatch(samples)) state.SetIterationTime(sum / 1e3);
  if (o.ms.empty()) return;
  const auto put = [&](const std::string& name, const std::vector<double>& values) {
    if (values.empty()) return;
    const Spread s = spread(values);
    state.counters[name] = s.median;
    state.counters[name + "_p10"] = s.p10, state.counters[name + "_p90"] = s.p90;
  };
  put("ms", o.ms);
  state.counters["TFLOPS"] = 2e-9 * p.M * p.N * p.K / spread(o.ms).median;  // of one GPU
  put("gemm_ms", group.parts.gemm_ms);
  put("wire_ms", group.parts.wire_ms);
  const std::vector<double> baseline = serial(group.jobs, group.outcomes);
  put("serial_ms", baseline);
  put("speedup", ratios(baseline, o.ms));
}

void print(const ShardedJob& job, const Group& group) {
  const ShardedOutcome& o = group.outcomes.at(job.name());
  std::string what = "verified";
  if (!o.skipped.empty()) what = "skipped: " + o.skipped;
  if (!o.wrong.empty()) what = "WRONG: " + printable(o.wrong, 300);
  if (!o.failed.empty()) what = "FAILED: " + printable(o.failed, 1000);
  if (o.wrong.empty() && !o.ms.empty()) {
    const double ms = spread(o.ms).median;
    what = fmt::format("{:8.3f} ms {:6.0f} TFLOPS a GPU", ms,
                       2e-9 * job.problem.M * job.problem.N * job.problem.K / ms);
    if (const std::vector<double> baseline = serial(group.jobs, group.outcomes); !baseline.empty())
      what += fmt::format("   {:5.3f} x the serial time", spread(ratios(baseline, o.ms)).median);
  }
  fmt::print("  {:<18} {}\n", job.id(), what);
}

void print_heading(const Group& group) {
  const ShardedProblem& p = group.jobs.front().problem;
  fmt::print("\n{} x {} x {} on each of {} ranks, {}, n{}, {}\n", p.M, p.N, p.K, p.ranks,
             to_string(p.dtype), p.op_b == Op::N ? 'n' : 't', name_of(p.collective));
  if (group.parts.gemm_ms.empty()) return;
  const double gemm = spread(group.parts.gemm_ms).median;
  fmt::print("  GEMM alone {:.3f} ms", gemm);
  if (!group.parts.wire_ms.empty()) {
    const double wire = spread(group.parts.wire_ms).median;
    fmt::print(", NCCL alone {:.3f} ms: at best {:.2f} x their sum", wire,
               (gemm + wire) / std::max(gemm, wire));
  }
  fmt::print("\n");
}

// The ranks' devices; in the simulator one stands for all, as memory is the host's.
struct Ranks {
  std::vector<std::unique_ptr<Device>> own;
  std::vector<Device*> devices;
  std::unique_ptr<Fabric> fabric;
};
Ranks make_ranks(const Options& o, std::string& note) {
  Ranks ranks;
  std::string why;
  if (o.backend != Backend::sim) {
    std::vector<int> devices(o.gpus);
    std::iota(devices.begin(), devices.end(), 0);
    ranks.fabric = make_gpu_fabric(devices, why);
    if (ranks.fabric == nullptr && o.backend == Backend::gpu)
      throw UsageError(fmt::format("--gpus {}: {}", o.gpus, why));
  }
  for (int rank = 0; ranks.fabric != nullptr && rank < o.gpus; ++rank) {
    ranks.own.push_back(make_gpu_device(why, rank));
    if (ranks.own.back() == nullptr) throw UsageError(fmt::format("GPU {}: {}", rank, why));
    ranks.devices.push_back(ranks.own.back().get());
  }
  if (ranks.fabric != nullptr) return ranks;
  if (!o.backend) note = fmt::format("not on {} GPUs ({}): in the simulator", o.gpus, why);
  ranks.fabric = make_sim_fabric(o.gpus);
  ranks.own.push_back(make_sim_device());
  ranks.devices.assign(o.gpus, ranks.own.front().get());
  return ranks;
}

ExitStatus list_sharded(Backend backend) {
  const std::vector<const ShardedRung*> all = sharded_rungs(backend);
  for (size_t i = 0; i < all.size();) {
    const ShardedRung& r = *all[i];
    std::set<std::string> collectives;
    for (; i < all.size() && all[i]->name == r.name; ++i)
      collectives.insert(name_of(all[i]->collective));
    fmt::print("{:<5} {:<22} {:<27} {}\n", r.id, r.name,
               fmt::format("{}", fmt::join(collectives, ",")), r.idea);
  }
  return EXIT_VERIFIED;
}

// The traced build of each rung on simulated devices: what its ranks do wrong to each other's memory.
// Each is called twice, as flags and buffers are used again.
ExitStatus inspect_sharded(const Options& o) {
  const std::unique_ptr<Device> device = make_sim_device();
  bool wrong = false;
  for (const ShardedJob& job : plan_sharded(o, Backend::sim_traced)) {
    now_running(job.name());
    const ShardedProblem& p = job.problem;
    const std::unique_ptr<Fabric> fabric = make_sim_fabric(p.ranks);
    ShardedMatrices matrices(std::vector<Device*>(p.ranks, device.get()), *fabric, p,
                             o.ld_pad + 16);  // between rows, as for other rungs
    matrices.fill(Inputs::uniform, SEED);
    sim::TraceOptions options;
    options.matrices = matrices.matrices();
    const sim::Trace trace = sim::trace(options, [&] {
      const std::unique_ptr<ShardedGemm> gemm = job.rung->make(p, *fabric, job.variant);
      for (int call = 0; call < 2; ++call) gemm->enqueue(matrices.call());
      fabric->synchronize();
    });
    fmt::print("{}: {} launches, {}\n", job.name(), trace.launches.size(),
               trace.findings.empty() ? "ok" : fmt::format("{} WRONG", trace.findings.size()));
    for (const sim::Finding& f : trace.findings)
      fmt::print("    {}: {}{}\n", f.check, printable(f.what, 1000),
                 f.count > 0 ? fmt::format(" ({} times)", f.count) : "");
    std::fflush(stdout);
    wrong |= !trace.findings.empty();
  }
  now_running("");
  return wrong ? EXIT_WRONG : EXIT_VERIFIED;
}

}  // namespace

ExitStatus run_sharded(const Options& o) {
  if (o.inspect) return inspect_sharded(o);
  std::string note;
  Ranks ranks = make_ranks(o, note);
  const Backend backend = ranks.fabric->backend();
  if (o.list) return list_sharded(backend);
  if (!note.empty()) fmt::print("{}\n", note);
  std::optional<OutputFile> file;
  if (!o.json.empty()) file.emplace("--json", o.json);
  std::vector<Group> groups;
  for (const ShardedJob& job : plan_sharded(o, backend)) {
    if (groups.empty() || groups.back().jobs.front().problem != job.problem) groups.emplace_back();
    groups.back().jobs.push_back(job);
  }
  benchmark::AddCustomContext("command_line", command_line(o));
  benchmark::AddCustomContext("git_revision", GIT_REVISION);
  benchmark::AddCustomContext("backend", backend == Backend::gpu ? "gpu" : "simulator");
  benchmark::AddCustomContext("build", BUILD_DESCRIPTION);
  benchmark::AddCustomContext("gpus", std::to_string(o.gpus));
  if (backend == Backend::gpu)
    for (const auto& [key, value] : describe_gpu(*ranks.devices[0]))
      benchmark::AddCustomContext(key, value);

  OutputFile* const json = file ? &*file : nullptr;
  Results results(json, [] {});
  ShardedRunner runner(ranks.devices, *ranks.fabric, o);
  int verified = 0, wrong = 0, failed = 0, skipped = 0;
  std::string lost;  // why no further problem can run
  const auto take = [&](benchmark::State& state, Group& group, const ShardedJob& job) {
    if (!group.done && lost.empty()) {
      try {
        group.outcomes = runner.run(group.jobs);
        group.parts = runner.parts();
      } catch (const std::bad_alloc&) {
        for (const ShardedJob& j : group.jobs) group.outcomes[j.name()].skipped = "out of memory";
      } catch (const std::runtime_error& e) {  // a fault, or what CUDA and NCCL refuse
        lost = e.what();
      }
      group.done = true;
      if (lost.empty()) print_heading(group);
    }
    if (!lost.empty()) {
      results.stop();
      return state.SkipWithError("not run");
    }
    const ShardedOutcome& outcome = group.outcomes.at(job.name());
    !outcome.skipped.empty()  ? ++skipped
    : !outcome.wrong.empty()  ? ++wrong
    : !outcome.failed.empty() ? ++failed
                              : ++verified;
    print(job, group);
    std::fflush(stdout);
    report_sharded(state, job, group);
  };
  for (Group& group : groups)
    for (const ShardedJob& job : group.jobs)
      benchmark::RegisterBenchmark(
          job.name().c_str(),
          [&take, &group, &job](benchmark::State& state) { take(state, group, job); })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  const std::string complaint = run_benchmarks(o, results);
  if (!complaint.empty()) throw UsageError(printable(complaint, 300));
  if (results.error()) std::rethrow_exception(results.error());
  if (json != nullptr) lost.empty() ? json->finish(results.text()) : json->abandon(results.text());
  fmt::print("\n{} verified, {} wrong, {} failed, {} skipped\n", verified, wrong, failed, skipped);
  std::fflush(stdout);
  if (!lost.empty())
    fmt::print(
        stderr, "gemm_bench: {}; the run ends here{}\n", printable(lost, 1000),
        json != nullptr ? ", results until then are in " + printable(json->kept_in(), 300) : "");
  if (wrong > 0) return EXIT_WRONG;
  if (!lost.empty() || failed > 0) return EXIT_FAILED;
  return verified > 0 ? EXIT_VERIFIED : EXIT_USAGE;
}

}  // namespace gemm
