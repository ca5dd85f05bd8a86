// Timing of a rung and its baseline on a GPU: docs/manual.md, "How it is measured". The simulator has no time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/check.h"
#include "harness/device.h"
#include "harness/samples.h"

namespace gemm {

struct TimingOptions {
  double warm_up_ms = 200;  // of the kernel itself, before the first sample
  double min_ms = 300;      // of samples, rung and baseline together
  int min_samples = 11;     // pairs; 5 of such as take long
  // Half the width of the 95 % confidence interval of the ratio's median, relative to it, at which
  // sampling ends; 0: when min_ms are over. In any case it ends after most_ms.
  double precision = 0;
  double most_ms = 0;
  double candidate_ms = 2;      // a sample of each of the baseline's candidates
  double candidates_ms = 4000;  // of all candidates; the heuristic puts its best guesses first
  double finalists_ms = 300;    // of the fastest candidates against each other
  bool l2_cold =
      true;  // rotate over buffers that exceed twice the L2; false: one set of buffers, L2 warm
  int lt_heuristics = 32;        // cuBLASLt candidates to time
  size_t workspace = 32u << 20;  // bytes for cuBLAS and cuBLASLt
  // How long each kernel is also timed by itself, after half as long to settle; 0: pairs only.
  double alone_ms = 0;
};

// --quick, for hundreds of shapes: less time for all but verification.
inline TimingOptions quick_timing() {
  TimingOptions o;
  o.warm_up_ms = 10;
  o.min_ms = 0;
  o.precision = 0.005;
  o.most_ms = 250;
  o.candidate_ms = 0.2;
  o.candidates_ms = 200;
  o.finalists_ms = 15;
  return o;
}

// Sampled through NVML while timing; negative or empty = unknown.
struct Conditions {
  double sm_clock_mhz = -1, sm_clock_min_mhz = -1, power_w = -1, temperature_c = -1;
  double memory_percent = -1;  // of the memory's bandwidth by its clock, in use on average
  std::string throttle;        // reasons seen, comma-separated ("none" when none)
};

// A kernel that runs alone, launch after launch, when clock and power have settled: at the power
// limit, unlike in pairs, a kernel that needs less energy has the higher clock.
struct Alone {
  std::string name;  // the rung's, or the baseline's as in Baseline
  Spread tflops;
  Conditions conditions;
};

struct Timing {
  Spread tflops, baseline_tflops;
  Spread ratio;                  // rung over baseline, sample pair by sample pair
  double ratio_uncertainty = 0;  // of its median: see median_uncertainty()
  std::vector<double> seconds;   // what a launch of the rung took, by sample
  int launches_per_sample = 0;
  bool held = false;  // the GPU was kept waiting until all samples were queued
  Conditions conditions;
  // With TimingOptions::alone_ms; the baseline is whichever candidate is the fastest alone.
  std::optional<Alone> alone, alone_baseline;
  double alone_ratio() const { return alone->tflops.median / alone_baseline->tflops.median; }
  CheckResult after;  // of the timed buffers, compared after the last launch
  // Why the times are none though that is right: "..., C[0][1] = 2, should be -2"; empty: they are.
  std::string wrong;
};

struct Baseline {
  std::string name;            // "cuBLAS" or "cuBLASLt#7"
  double cublas_tflops = 0;    // each candidate timed alone; medians
  double cublaslt_tflops = 0;  // best heuristic; 0 when none ran
  int cublaslt_index = -1;     // which of the heuristics
  int cublaslt_tried = 0;
  double max_error = 0, max_error_roundings = 0;  // of its result, as in CheckResult
};

// Everything that is timed on one problem: rotating buffers, baselines chosen once, then any number
// of rungs.
class TimedProblem {
 public:
  virtual ~TimedProblem() = default;
  virtual const Baseline& baseline() const = 0;
  // Times `rung` and the baseline A B A B. Throws LaunchError; the result's `after` tells whether
  // the timed buffers are right.
  virtual Timing time(const Rung& rung) = 0;
  // Times several against each other, taking turns: the median TFLOPS of each. Those that are far
  // behind soon stop taking part. Throws as time(), and WrongResult.
  virtual std::vector<double> compare(const std::vector<Rung>& rungs) = 0;
};
// `device` must be a GPU device. `reference`: of this problem's shape, types, scalars and SEED, as
// Verifier::reference(); null: it is made here. Throws std::bad_alloc when the buffers do not fit.
std::unique_ptr<TimedProblem> make_timed_problem(
    Device& device, const Problem& p, const TimingOptions& options,
    std::shared_ptr<const Reference> reference = nullptr);

// What the card can do, measured now by microbenchmarks that touch only registers (FFMA, mma.sync)
// or resident shared memory (wgmma).
struct Peaks {
  double ffma_tflops = 0;      // FP32 multiply-adds on CUDA cores
  double mma_f16_tflops = 0;   // mma.sync m16n8k16, random data
  double mma_tf32_tflops = 0;  // mma.sync m16n8k8
  double tensor_f16_tflops =
      0;  // the faster of mma.sync and, on sm_90a, wgmma m64n256k16, random data
  double tensor_tf32_tflops = 0;
  double copy_tbs = 0;          // device-to-device copy, bytes read + written, TB/s
  double tensor_f8_tflops = 0;  // wgmma m64n256k32 of e4m3; 0 where there is none
};
Peaks measure_peaks(Device& device);

// Facts for the JSON context: gpu, sm_count, l2_bytes, memory_bytes, driver, cuda_runtime,
// cuda_driver_api, cublas, power_limit_w, max_sm_clock_mhz, ...
std::map<std::string, std::string> describe_gpu(Device& device);

}  // namespace gemm
