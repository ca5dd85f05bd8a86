#include "harness/report.h"

#include <fmt/format.h>

namespace gemm {
namespace {

constexpr int IDEA_WIDTH = 54;

std::string idea(const Rung& r) {
  return r.idea.size() <= IDEA_WIDTH ? r.idea : r.idea.substr(0, IDEA_WIDTH - 2) + "..";
}

}  // namespace

double peak_of(const Peaks& peaks, DType dtype) {
  switch (info(dtype).unit) {
    case Unit::ffma:
      return peaks.ffma_tflops;
    case Unit::tensor_8:
      return peaks.tensor_f8_tflops;
    case Unit::tensor_16:
      return peaks.tensor_f16_tflops;
    case Unit::tensor_32:
      return peaks.tensor_tf32_tflops;
  }
  return 0;
}

void Table::heading(const Outcome& o) {
  const Problem& p = o.problem;
  std::string group = fmt::format("{} {} {}", to_string(p.dtype), ops_name(p), shape_name(p));
  if (const std::string batch = batch_name(p); !batch.empty()) group += " " + batch;
  if (const std::string epilogue = epilogue_name(p); !epilogue.empty()) group += " " + epilogue;
  if (p.invariant) group += " invariant";
  if (group == group_) return;
  group_ = group;
  tflops_.clear();
  fmt::print("\n{}  alpha {:g} beta {:g}", group, p.alpha, p.beta);
  if (o.timing) {
    fmt::print("   cuBLAS{} {:.2f}", epilogue_name(p).empty() ? "" : " + kernel",
               o.baseline.cublas_tflops);
    if (o.baseline.cublaslt_tried > 0)
      fmt::print(", cuBLASLt best of {} {:.2f}", o.baseline.cublaslt_tried,
                 o.baseline.cublaslt_tflops);
    fmt::print(" TFLOPS; % of the better: {}", o.baseline.name);
    if (peak_of(peaks_, p.dtype) > 0)
      fmt::print("; measured peak {:.1f}", peak_of(peaks_, p.dtype));
  }
  fmt::print("\n{:<5} {:<{}}", "rung", "idea", IDEA_WIDTH);
  if (columns_ == Columns::timing)
    fmt::print(" {:>8} {:>17} {:>9} {:>8} {:>7}", "TFLOPS", "p10 .. p90", "% cuBLAS", "% peak",
               "gain");
  if (columns_ == Columns::counters)
    fmt::print(" {:>9} {:>8} {:>9} {:>11} {:>10}", "blocks", "threads", "barriers", "warp ops",
               "cp.async");
  fmt::print("\n");
}

void Table::add(const Outcome& o) {
  heading(o);
  fmt::print("{:<5} {:<{}} ", o.rung->id, idea(*o.rung), IDEA_WIDTH);
  std::string verified = "verified";
  if (o.rung->product_error > 0)
    verified += fmt::format(", products within {:.1g}", o.rung->product_error);
  if (!o.variant.empty()) verified += "  " + o.variant;
  if (o.jit_kernels > 0)
    verified += fmt::format(", {} kernels compiled in {:.0f} ms", o.jit_kernels, o.jit_ms);
  if (!o.skipped.empty()) {
    fmt::print("skipped: {}\n", o.skipped);
  } else if (!o.wrong.empty()) {
    fmt::print("WRONG: {}\n", o.wrong);
  } else if (!o.failed.empty()) {
    fmt::print("FAILED: {}\n", o.failed);
  } else if (!o.not_timed.empty()) {
    fmt::print("{}, not timed: {}\n", verified, o.not_timed);
  } else if (o.timing) {
    const Timing& t = *o.timing;
    const bool apart = o.rung->product_error > 0 && info(o.problem.dtype).unit == Unit::ffma;
    const double peak = apart ? 0 : peak_of(peaks_, o.problem.dtype);
    const auto before = tflops_.find(o.rung->prev);
    fmt::print(
        "{:>8.2f} {:>17} {:>8.1f}% {:>8} {:>7}  {}\n", t.tflops.median,
        fmt::format("{:.2f} .. {:.2f}", t.tflops.p10, t.tflops.p90), 100 * t.ratio.median,
        apart      ? "tensor"
        : peak > 0 ? fmt::format("{:.1f}%", 100 * t.tflops.median / peak)
                   : "",
        before == tflops_.end() ? "" : fmt::format("x{:.2f}", t.tflops.median / before->second),
        verified);
    tflops_[o.rung->id] = t.tflops.median;
  } else if (o.stats && columns_ == Columns::counters) {
    fmt::print("{:>9} {:>8} {:>9} {:>11} {:>10}  {}\n", o.stats->blocks, o.stats->threads_per_block,
               o.stats->barriers, o.stats->collectives, o.stats->copies, verified);
  } else {
    fmt::print("{}\n", verified);
  }
  if (o.timing && o.timing->alone && o.verified()) alone(*o.timing);
  if (accuracy_ && o.verified()) accuracy(o);
  std::fflush(stdout);
}

void Table::alone(const Timing& t) {
  const auto told = [](const Alone& a) {
    return fmt::format("{:.2f} TFLOPS at {:.0f} MHz, {:.0f} W, memory {:.0f}%", a.tflops.median,
                       a.conditions.sm_clock_mhz, a.conditions.power_w,
                       a.conditions.memory_percent);
  };
  fmt::print("      alone {}, {} {}: {:.1f}%\n", told(*t.alone), t.alone_baseline->name,
             told(*t.alone_baseline), 100 * t.alone_ratio());
}

void Table::accuracy(const Outcome& o) const {
  const auto told = [](double error, double roundings) {
    return fmt::format("{:.3g} ({:.3g} roundings of |A||B|)", error, roundings);
  };
  fmt::print("      largest error on uniform inputs {}", told(o.max_error, o.max_error_roundings));
  if (o.timing)
    fmt::print(", {}'s {}", o.baseline.name,
               told(o.baseline.max_error, o.baseline.max_error_roundings));
  fmt::print("\n");
}

}  // namespace gemm
