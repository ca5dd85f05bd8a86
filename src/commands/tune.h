// The command --tune, and what --tune first needs of it.
#pragma once

#include <functional>

#include "commands/exit_status.h"
#include "commands/jobs.h"
#include "harness/cli.h"

namespace gemm {

// --tune: times the variants of each rung at each shape and keeps what was found.
ExitStatus tune(const Options& options);

// The file of what is tuned on this device. Throws UsageError where nothing can be tuned, or kept.
std::string kept_tuning_file(const Options& options, const Device& device);

// Told of a variant that gave a wrong result, and how.
using OnWrong = std::function<void(const std::string& variant, const std::string& failure)>;

// Verifies and times the variants of a job's rung; fastest first. None: no variant takes the problem,
// or none is right.
TunedProblem measure_variants(const Options& options, Device& device, const Job& job,
                              const OnWrong& on_wrong);

}  // namespace gemm
