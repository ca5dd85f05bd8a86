// What the commands have in common: the device, and the jobs that the command line asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/cli.h"
#include "harness/device.h"
#include "harness/tuning.h"

namespace gemm {

// One rung on one problem.
struct Job {
  const Rung* rung;
  Problem problem;
  int variant = -1;          // asked for; -1: the rung's own or its tuning's choice
  bool jit = false;          // by a kernel that is compiled at run time
  std::string name() const;  // "v08_double_buffer/f32/nn/4096x4096x4096"
};

// All jobs of the command line, at least one. Throws UsageError.
std::vector<Job> plan(const Options& options, Backend backend);

// A line on the rungs that --kernel all leaves out because they are not built; empty: there are none.
std::string note_on_missing(const Options& options, Backend backend);

// The job's rung, as the variant that is asked for: unmet_need() says whether that takes the problem.
Rung rung_of(const Job& job);
// How a job on a rung with variants runs; the variant that is asked for takes the problem.
ExplainedPlan choose(const Job& job, const TuningCache& cache, const Device& device);

// The file of --tune's results, as asked for or by default; empty: neither.
std::string tuning_file(const Options& options);
// What it holds, where it counts: on a GPU, if one of the jobs has variants.
TuningCache read_tuning(const Options& options, Backend backend, const std::vector<Job>& jobs);

// As --backend says. `note`: a line on why it is not the GPU, if nobody said so; else empty.
std::unique_ptr<Device> choose_device(const Options& options, std::string& note);

// The command line for the JSON's context, without the folders of the machine that it ran on.
std::string command_line(const Options& options);

}  // namespace gemm
