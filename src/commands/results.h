// Google Benchmark's JSON of a run, kept on disk entry by entry.
#pragma once

#include <benchmark/benchmark.h>

#include <exception>
#include <functional>
#include <sstream>

#include "harness/cli.h"
#include "harness/output_file.h"
#include "harness/report.h"

namespace gemm {

// Iterations, counters and label of one run, under the names that the scripts read. `repeated`: the
// same benchmark runs several times.
void report(benchmark::State& state, const Outcome& outcome, bool repeated);

// The JSON reporter. Entries have the names of their jobs: Google Benchmark would append how it was
// told to run them, "/iterations:1/manual_time". After each the file holds whole JSON of all until then.
class Results : public benchmark::JSONReporter {
 public:
  // `file` null: nothing is kept. `progress` is called when the file has changed.
  Results(OutputFile* file, std::function<void()> progress);

  // No further entries are taken.
  void stop() { stopped_ = true; }
  // Why the file could not be written: what save() threw. Google Benchmark is not made for
  // exceptions to pass through it.
  std::exception_ptr error() const { return error_; }
  // All entries until now, as whole JSON.
  std::string text() const;

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override {}  // text() adds what closes it

 private:
  OutputFile* file_;
  std::function<void()> progress_;
  std::ostringstream out_;
  bool stopped_ = false;
  std::exception_ptr error_;
  double saved_at_ = 0, saving_took_ = 0;  // seconds
};

// Hands Google Benchmark its flags and runs all benchmarks that match its filter. Returns what it
// has to say of them, in place of running any; empty: nothing.
std::string run_benchmarks(const Options& options, Results& results);

}  // namespace gemm
