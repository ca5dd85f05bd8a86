#include "commands/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands/tune.h"
#include "harness/nvtx.h"
#include "harness/text.h"
#include "kernel_compiler.h"

namespace gemm {
namespace {
constexpr double ALONE_MS = 1000;  // clock and power settle within 0.1 s; the card's heat does not
constexpr size_t REASON = 400;     // characters of what a library or a kernel says

}  // namespace

TimingOptions timing_options(const Options& o) {
  TimingOptions options = o.quick ? quick_timing() : TimingOptions{};
  options.l2_cold = o.l2_cold;
  options.alone_ms = o.alone ? ALONE_MS : 0;
  return options;
}

Outcome Runner::run(const Job& job) {
  Outcome o;
  o.rung = job.rung;
  o.problem = job.problem;
  const KernelCompilerScope scope(job.jit ? compiler_ : nullptr);
  const JitCost before = compiler_ != nullptr ? compiler_->cost() : JitCost();
  try {
    attempt(job, o);
  } catch (const std::bad_alloc&) {
    o.out_of_memory = true;
    o.skipped = "out of memory";
    verifier_.reset(), timed_.reset();
  } catch (const LaunchError& e) {
    o.failed = printable(e.what(), REASON);
  } catch (const std::exception& e) {  // a fault, or the harness: what it has is not to be trusted
    o.failed = printable(e.what(), REASON);
    o.device_lost = true;
  }
  if (compiler_ != nullptr) {
    o.jit_kernels = compiler_->cost().kernels - before.kernels;
    o.jit_ms = compiler_->cost().ms - before.ms;
  }
  return o;
}

void Runner::attempt(const Job& job, Outcome& o) {
  Rung rung = rung_of(job);
  o.skipped = unmet_need(rung, job.problem, device_);
  if (!o.skipped.empty()) return;
  std::optional<ExplainedPlan> planned;
  if (!rung.variants.empty()) {
    if (options_.tune_first && !cache_.holds(device_.name(), rung.name, job.problem))
      tune_first(job, o);
    if (!o.wrong.empty() || !o.failed.empty()) return;
    planned = choose(job, cache_, device_);
    o.variant = planned->name;
    rung = as_planned(*job.rung, *planned);
  }
  const NvtxRange range(job.name());
  prepare(job.problem);
  sim::clear_launches();
  o.wrong = verifier_->verify(rung);
  if (!o.wrong.empty() && rung.diagnose)
    o.wrong += rung.diagnose(job.problem.M, job.problem.N, job.problem.K, o.wrong);
  if (!o.wrong.empty()) return;
  o.max_error = verifier_->uniform().max_error;
  o.max_error_roundings = verifier_->uniform().max_error_roundings;
  if (device_.backend() == Backend::sim)
    o.stats = sim::main_launch();
  else if (!options_.verify_only && flops(job.problem) > 0)
    time(job, planned ? with_plan(rung, planned->plan) : rung, o);  // planned once, launched often
}

// Measures the variants at a shape that is met first, and keeps what was found, unless one was wrong.
void Runner::tune_first(const Job& job, Outcome& o) {
  if (flops(job.problem) == 0) return;
  verifier_.reset(), timed_.reset();  // tuning has matrices of its own
  try {
    const TunedProblem tuned =
        measure_variants(options_, device_, job, [&](const auto& variant, const auto& failure) {
          if (o.wrong.empty()) o.wrong = fmt::format("variant {}: {}", variant, failure);
        });
    if (!o.wrong.empty() || tuned.variants.empty()) return;
    cache_.put(tuned);
    TuningCache one;
    one.put(tuned);
    one.write(tuning_file(options_));
  } catch (const WrongResult& e) {
    o.wrong = printable(e.what(), REASON);
  } catch (const OutputError& e) {
    o.failed = printable(e.what(), REASON);
  }
}

void Runner::time(const Job& job, const Rung& rung, Outcome& o) {
  try {
    if (timed_ == nullptr)
      timed_ = make_timed_problem(device_, job.problem, timing_options(options_),
                                  verifier_->reference());
    o.timing = timed_->time(rung);
    o.baseline = timed_->baseline();
  } catch (const BaselineError& e) {
    o.not_timed = printable(e.what(), REASON);
    return;
  }
  o.max_error = o.timing->after.max_error;
  o.max_error_roundings = o.timing->after.max_error_roundings;
  const std::string why = o.timing->after.ok() ? o.timing->wrong : describe(o.timing->after);
  if (!why.empty()) o.wrong = "after timing: " + why;
}

void refuse_above_peak(Outcome& o, const Peaks& peaks) {
  if (!o.timing || !o.wrong.empty()) return;
  const bool split = o.rung->product_error > 0;  // an FP32 rung on tensor cores
  const double peak = split ? peaks.tensor_f16_tflops : peak_of(peaks, o.problem.dtype),
               tflops = o.timing->tflops.median;
  // A tenth more: the peak is measured, too, and at a lower clock even the baseline passes it.
  if (peak > 0 && tflops > 1.1 * std::max(peak, split ? 0 : o.timing->baseline_tflops.median))
    o.wrong = fmt::format(
        "{:.0f} TFLOPS, and the card's measured peak is {:.0f}: not all of its work was timed",
        tflops, peak);
}

void Runner::prepare(const Problem& p) {
  if (verifier_ != nullptr && problem_ == p) return;
  verifier_.reset();  // before the next one is allocated
  timed_.reset();
  problem_ = p;
  verifier_ = std::make_unique<Verifier>(device_, p, Layouts::also_padded);
}

// ------------------------------------------------------------------------------------------------

void Verdict::add(const Outcome& o) {
  const auto first = [](std::string& kept, const std::string& s) {
    if (kept.empty()) kept = s;
  };
  const std::string at =
      fmt::format("{} {} at {}", o.rung->name, to_string(o.problem.dtype), shape_name(o.problem));
  wrong_ += !o.wrong.empty();
  verified_ += o.verified();
  skipped_ += !o.skipped.empty();
  failed_ += !o.failed.empty();
  not_timed_ += !o.not_timed.empty();
  not_run_ += !o.not_run.empty();
  too_large_ += o.out_of_memory;
  if (o.out_of_memory) first(too_large_at_, shape_name(o.problem));
  if (!o.skipped.empty()) first(first_skip_, o.skipped);
  if (!o.failed.empty()) first(first_failure_, at + ": " + o.failed);
  if (!o.not_timed.empty()) first(first_not_timed_, at + ": " + o.not_timed);
  if (!o.not_run.empty())
    first(first_not_run_,
          fmt::format("{} {} {} {} on: {}", o.rung->name, to_string(o.problem.dtype),
                      ops_name(o.problem), shape_name(o.problem), o.not_run));
}

ExitStatus Verdict::status() const {
  if (wrong_ > 0) return EXIT_WRONG;
  if (failed_ + not_timed_ + too_large_ + not_run_ > 0) return EXIT_FAILED;
  return verified_ > 0 ? EXIT_VERIFIED : EXIT_USAGE;
}

std::string Verdict::counts() const {
  std::string text = fmt::format("{} verified, {} wrong, {} skipped", verified_, wrong_, skipped_);
  if (not_timed_ > 0) text += fmt::format(", {} not timed", not_timed_);
  if (not_run_ > 0) text += fmt::format(", {} not measured", not_run_);
  if (failed_ > 0) text += fmt::format(", {} failed", failed_);
  return text;
}

std::string Verdict::reason() const {
  if (wrong_ > 0) return "";
  if (failed_ > 0) return first_failure_;
  if (not_timed_ > 0) return "not timed: " + first_not_timed_;
  if (too_large_ > 0)
    return fmt::format("not enough memory for {}: choose a smaller --size or --shape",
                       too_large_at_);
  if (not_run_ > 0) return fmt::format("{} not measured, from {}", not_run_, first_not_run_);
  return verified_ > 0 ? "" : "nothing was verified, all were skipped: " + first_skip_;
}

}  // namespace gemm
