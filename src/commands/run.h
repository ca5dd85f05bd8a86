// The command without a flag of its own: verify, then time.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// Google Benchmark runs one benchmark a job and gives the JSON; the table prints each as it ends.
ExitStatus run(const Options& options);

}  // namespace gemm
