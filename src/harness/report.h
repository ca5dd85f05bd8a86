// The table on the terminal, one line a rung, a heading for each problem.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/problem.h"
#include "harness/timing.h"
#include "registry.h"
#include "sim/simulator.h"

namespace gemm {

// What became of one rung on one problem.
struct Outcome {
  const Rung* rung = nullptr;
  Problem problem{};
  // Why there is no result; all empty: it is right.
  std::string skipped;           // it was not run
  std::string wrong;             // what verification found
  std::string failed;            // what broke: a launch, the device, the program
  bool out_of_memory = false;    // why it was skipped
  bool device_lost = false;      // nothing can run after this failure, in this process
  std::string not_run;           // why it was not begun: the run's time limit
  std::string not_timed;         // why a right one has no timing that was asked for: its baseline
  std::string variant;           // of a rung with variants: the name of the one that ran
  int jit_kernels = 0;           // compiled for it at run time: one for each layout and epilogue
  double jit_ms = 0;             // that took
  std::optional<Timing> timing;  // GPU, when timed
  Baseline baseline;             // with timing
  std::optional<sim::LaunchStats> stats;  // simulator
  // On uniform inputs, as in CheckResult: of the timed result, or of the verified one.
  double max_error = 0, max_error_roundings = 0;

  bool verified() const {
    return skipped.empty() && wrong.empty() && failed.empty() && not_run.empty();
  }
};

class Table {
 public:
  enum class Columns { none, timing, counters };
  // `peaks` all zero: not measured.
  // `accuracy`: with a line on the errors of each result.
  Table(Columns columns, const Peaks& peaks, bool accuracy)
      : columns_(columns), peaks_(peaks), accuracy_(accuracy) {}
  void add(const Outcome& outcome);

 private:
  void heading(const Outcome& outcome);

  void accuracy(const Outcome& outcome) const;
  static void alone(const Timing& timing);

  Columns columns_;
  Peaks peaks_;
  bool accuracy_;
  std::string group_;
  std::map<std::string, double>
      tflops_;  // by rung id, in this group: for the gain over the rung before
};

// The measured limit that a rung of this type is held against, TFLOPS: FFMA for f32, the tensor
// cores' for f16, tf32 and bf16 (which has f16's: the same units at the same rate).
double peak_of(const Peaks& peaks, DType dtype);

}  // namespace gemm
