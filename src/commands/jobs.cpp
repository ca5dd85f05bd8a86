#include "commands/jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include "harness/errors.h"
#include "harness/inputs.h"
#include "harness/known_rungs.h"
#include "harness/text.h"
#include "jit/sources.h"

namespace gemm {
namespace {

const std::vector<Ops> EVERY_OP = {{Op::N, Op::N}, {Op::N, Op::T}, {Op::T, Op::N}, {Op::T, Op::T}};

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

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

std::vector<Shape> default_shapes(const Options& o, Backend backend) {
  if (o.tune) return tuned_shapes();
  if (o.inspect) return {{256, 256, 256}};
  if (backend == Backend::gpu) return {{4096, 4096, 4096}};
  return {{256, 256, 256}, {129, 65, 250}};
}

// A result beyond the type's range is an infinity, which says nothing about a kernel. With the inputs
// that verify (inputs.h): sums reach 2^24 half way, in float; products 64; and of K uniform products
// the sum stays below 2 sqrt(K), six standard deviations.
void refuse_overflow(const Problem& p) {
  const double largest = info(info(p.dtype).out).largest;
  const bool half = largest < 1 << 24;
  const int scales = 1 << p.operands.scales();  // the largest: see inputs.h
  const double sum = (half ? std::max(64.0, 2 * std::sqrt(p.K)) : 1 << 24) * scales;
  const double most_alpha = largest / 2 / sum, most_beta = largest / 2 / 3;
  if (std::abs(p.alpha) <= most_alpha && std::abs(p.beta) <= most_beta) return;
  throw UsageError(fmt::format(
      "--alpha {:g} --beta {:g} overflow {} at K = {}: want |alpha| <= {:.3g} and |beta| <= "
      "{:.3g}",
      p.alpha, p.beta, to_string(p.dtype), p.K, most_alpha, most_beta));
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

// The jobs of `count` problems, in their order. The draws of one seed are nested: a larger one has
// all of a smaller one's problems.
std::vector<Job> sampled(const std::vector<Job>& jobs, int64_t count, uint64_t seed) {
  std::vector<size_t> problem_of(jobs.size(), 0);  // jobs on one problem follow each other
  for (size_t i = 1; i < jobs.size(); ++i)
    problem_of[i] = problem_of[i - 1] + !(jobs[i].problem == jobs[i - 1].problem);
  std::vector<std::pair<uint64_t, size_t>> drawn;
  for (size_t problem = 0; problem <= problem_of.back(); ++problem)
    drawn.emplace_back(mix(seed, problem), problem);
  std::sort(drawn.begin(), drawn.end());
  drawn.resize(std::min<size_t>(drawn.size(), static_cast<size_t>(count)));
  std::set<size_t> kept;
  for (const auto& [key, problem] : drawn) kept.insert(problem);
  std::vector<Job> result;
  for (size_t i = 0; i < jobs.size(); ++i)
    if (kept.contains(problem_of[i])) result.push_back(jobs[i]);
  return result;
}

void refuse_unknown_variant(const std::vector<const Rung*>& chosen, const std::string& variant) {
  if (variant.empty() || variant == "all") return;
  std::vector<std::string> known;
  for (const Rung* r : chosen)
    for (const RungVariant& v : r->variants)
      if (std::count(known.begin(), known.end(), v.name) == 0) known.push_back(v.name);
  if (std::count(known.begin(), known.end(), variant) > 0) return;
  throw UsageError(fmt::format(
      "unknown variant '{}': {}", printable(variant),
      known.empty() ? "these rungs have none"
                    : fmt::format("choose from '{}', or all", fmt::join(known, "', '"))));
}

std::vector<const Rung*> those_that_compile(std::vector<const Rung*> chosen,
                                            const std::string& kernels, Backend backend) {
  const auto compiles = [](const Rung* r) { return has_kernel_source("gemm_" + r->id); };
  std::erase_if(chosen, [&](const Rung* r) { return !compiles(r); });
  if (!chosen.empty()) return chosen;
  std::set<std::string> all;
  for (const Rung* r : rungs(backend))
    if (compiles(r)) all.insert(r->id);
  throw UsageError(fmt::format(
      "--jit: no rung of --kernel '{}' is compiled at run time: {}", printable(kernels),
      all.empty() ? "this program has none" : fmt::format("choose {}", fmt::join(all, ", "))));
}

}  // namespace

std::string Job::name() const {
  const std::string asked = variant < 0 ? "" : "/variant:" + rung->variants[variant].name;
  const std::string asked_for = epilogue_name(problem);
  const std::string epilogue = asked_for.empty() ? "" : "/epilogue:" + asked_for;
  const std::string several = batch_name(problem);
  const std::string batch = several.empty() ? "" : "/" + several;
  return fmt::format("{}/{}/{}/{}{}{}{}{}{}", rung->name, to_string(problem.dtype),
                     ops_name(problem), shape_name(problem), batch, epilogue,
                     problem.invariant ? "/invariant" : "", asked, jit ? "/jit" : "");
}

std::vector<Job> plan(const Options& o, Backend backend) {
  const std::vector<Shape> shapes = o.shapes.empty() ? default_shapes(o, backend) : o.shapes;
  if (o.jit && backend != Backend::gpu) throw UsageError(JIT_WANTS_A_GPU);
  std::vector<const Rung*> chosen = select_rungs(o.kernels, o.dtypes, backend);
  if (o.jit) chosen = those_that_compile(chosen, o.kernels, backend);
  refuse_unknown_variant(chosen, o.variant);
  std::map<std::string, std::vector<const Rung*>> at;  // by Shape::rungs
  for (const Shape& s : shapes)
    if (!at.contains(s.rungs)) try {
        at[s.rungs] = select_rungs(s.rungs, {}, backend);
      } catch (const UsageError& e) {
        throw UsageError(s.place.empty() ? e.what() : fmt::format("{}: {}", s.place, e.what()));
      }
  std::vector<Job> jobs;
  for (const DType dtype : ALL_DTYPES)
    for (const Ops& op : o.ops_given ? o.ops : EVERY_OP)
      for (const Shape& s : shapes) {
        if (!contains(s.ops.empty() ? o.ops : s.ops, op)) continue;
        if (!s.dtypes.empty() && !contains(s.dtypes, dtype)) continue;
        const std::vector<const Rung*>& here = at[s.rungs];
        const Problem p{.dtype = dtype,
                        .M = s.M,
                        .N = s.N,
                        .K = s.K,
                        .op_a = op.first,
                        .op_b = op.second,
                        .alpha = o.alpha,
                        .beta = o.beta,
                        .ld_pad = o.ld_pad,
                        .activation = o.activation,
                        .operands = o.operands,
                        .gated = o.gated,
                        .batch = s.batch > 0 ? s.batch : o.batch,
                        .batch_pad = o.batch_pad,
                        .shared_a = o.shared_a,
                        .shared_b = o.shared_b,
                        .groups = s.groups,
                        .invariant = o.invariant};
        if (p.batch > 1 && (o.tune || o.tune_first || !o.html.empty()))
          throw UsageError("a batch does not go with --tune or --html, which are of one product");
        if (p.invariant && (p.batch > 1 || p.groups.count > 0))
          throw UsageError(
              "a batch or groups do not go with --invariant, which compares rows of one product");
        if (p.gated && p.N % 2 != 0)
          throw UsageError(fmt::format(
              "--epilogue gated wants an even N, a gate and a value for each column of D, not {}",
              shape_name(p)));
        if (p.batch > 1 && p.operands.residual)
          throw UsageError(
              "a batch does not go with --epilogue residual, which is of one product: --beta adds "
              "each product's own C");
        if (p.groups.count > 0 && (p.operands.any() || !p.epilogue().is_plain()))
          throw UsageError(fmt::format(
              "--groups does not go with --epilogue {}: groups take --alpha, --beta and "
              "activations that need no epilogue pass",
              epilogue_name(p)));
        for (const Rung* r : chosen)
          if (r->dtype == dtype && contains(here, r))
            for (Job job : jobs_of(r, p, o.variant)) {
              if (!o.jit || o.jit_beside) jobs.push_back(job);
              job.jit = true;
              if (o.jit) jobs.push_back(job);
            }
      }
  if (jobs.empty())
    throw UsageError(fmt::format(
        "nothing to run: no shape names a rung of --kernel '{}', its types and --op; a line of a "
        "shapes file without rungs is for all of them",
        printable(o.kernels)));
  // What is named twice runs once: two results of one name could not be told apart. Groups of one name
  // may be others.
  std::set<std::pair<std::string, std::vector<int>>> seen;
  std::erase_if(jobs, [&](const Job& job) {
    const Groups& g = job.problem.groups;
    return !seen.emplace(job.name(), std::vector<int>(g.ends, g.ends + g.count)).second;
  });
  for (const Job& job : jobs) refuse_overflow(job.problem);
  return o.sample > 0 ? sampled(jobs, o.sample, o.sample_seed) : jobs;
}

std::string note_on_missing(const Options& o, Backend backend) {
  if (o.kernels != "all") return "";
  std::vector<std::string> ids;
  for (const KnownRung& k : rungs_not_built(backend))
    if (k.name[0] == 'v') ids.push_back(rung_id(k.name));
  if (ids.empty()) return "";
  return fmt::format("not built, so not run: {}; {} builds and runs all rungs\n",
                     fmt::join(ids, " "), command_that_builds(backend, "all"));
}

Rung rung_of(const Job& job) {
  return job.variant < 0 ? *job.rung : with_variant(*job.rung, job.variant);
}

ExplainedPlan choose(const Job& job, const TuningCache& cache, const Device& device) {
  if (job.variant >= 0)
    return plan_variant(*job.rung, job.problem, device.arch(), job.variant,
                        "asked for by --variant");
  return choose_plan(*job.rung, job.problem, &cache, device.name(), device.arch());
}

std::string tuning_file(const Options& o) {
  return o.tune_cache.empty() ? default_tuning_cache() : o.tune_cache;
}

TuningCache read_tuning(const Options& o, Backend backend, const std::vector<Job>& jobs) {
  const bool any = std::any_of(jobs.begin(), jobs.end(),
                               [](const Job& job) { return !job.rung->variants.empty(); });
  if (backend != Backend::gpu || o.no_tune_cache || o.invariant || !any) return {};
  if (!o.tune_cache.empty()) return TuningCache::read(o.tune_cache);
  std::string note;
  TuningCache cache = TuningCache::read_unnamed(default_tuning_cache(), note);
  if (!note.empty() && o.only.empty()) fmt::print(stderr, "gemm_bench: {}\n", note);
  return cache;
}

std::unique_ptr<Device> choose_device(const Options& o, std::string& note) {
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
    note = fmt::format("no GPU ({}): running in the simulator, which verifies but does not time",
                       why_not);
  }
  return make_sim_device();
}

std::string command_line(const Options& o) {
  std::string command = "./gemm_bench";
  for (const std::string& argument : o.arguments) {
    const std::string shown =
        argument == o.json ? std::filesystem::path(argument).filename().string() : argument;
    command += " " + printable(shown, 1000);
  }
  return command;
}

}  // namespace gemm
