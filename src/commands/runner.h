// One job on one device: tuned where --tune first asks for it, verified, then timed.
#pragma once

#include <memory>

#include "commands/exit_status.h"
#include "commands/jobs.h"
#include "harness/jit.h"
#include "harness/report.h"
#include "harness/timing.h"
#include "harness/verify.h"

namespace gemm {

// How a command times kernels: as --quick, --alone and --l2 say.
TimingOptions timing_options(const Options& options);

// Runs jobs on one device. Jobs that follow each other on the same problem share its matrices,
// references and baselines.
class Runner {
 public:
  // `compiler`: for jobs with `jit`; may be null where there are none.
  Runner(Device& device, const Options& options, TuningCache& cache, JitCompiler* compiler)
      : device_(device), options_(options), cache_(cache), compiler_(compiler) {}

  // Every failure is part of the outcome; nothing is thrown.
  Outcome run(const Job& job);

 private:
  void attempt(const Job& job, Outcome& outcome);
  void tune_first(const Job& job, Outcome& outcome);
  void time(const Job& job, const Rung& rung, Outcome& outcome);
  void prepare(const Problem& problem);

  Device& device_;
  const Options& options_;
  TuningCache& cache_;
  JitCompiler* compiler_;
  Problem problem_;
  std::unique_ptr<Verifier> verifier_;
  std::unique_ptr<TimedProblem> timed_;
};

// Makes an outcome wrong whose time is better than the card can do.
void refuse_above_peak(Outcome& outcome, const Peaks& peaks);

// What all outcomes together come to: the status, and one line for stderr where there is none on
// the table that says why.
class Verdict {
 public:
  void add(const Outcome& outcome);
  ExitStatus status() const;
  // "3 verified, 0 wrong, 1 skipped"
  std::string counts() const;
  // Why the status is EXIT_USAGE or EXIT_FAILED; empty otherwise.
  std::string reason() const;

 private:
  int verified_ = 0, wrong_ = 0, skipped_ = 0, failed_ = 0, not_timed_ = 0, too_large_ = 0;
  int not_run_ = 0;
  std::string first_skip_, first_failure_, first_not_timed_, too_large_at_, first_not_run_;
};

}  // namespace gemm
