// A job in a process of its own (--keep-going): whatever it breaks, the others go on.
#pragma once

#include "commands/jobs.h"
#include "harness/report.h"

namespace gemm {

// Starts this program again for one job, with the same arguments and --only, and waits for it. A
// process that ends without an outcome is a failure of that job.
Outcome run_apart(const Options& options, const Job& job);

// In that process: hands the outcome to the one that waits.
void send_outcome(const Outcome& outcome);

}  // namespace gemm
