// A job in a process of its own (--keep-going): whatever it breaks, the others go on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "commands/jobs.h"
#include "harness/report.h"

namespace gemm {

// Starts this program with these arguments, argv[0] among them, and a pipe as OUTCOME_FD: all that it
// writes there, and its status for wait(). Throws OutputError.
constexpr int OUTCOME_FD = 3;
std::pair<std::string, int> run_process(std::vector<std::string> arguments);
std::string how_it_ended(int status);

// Starts this program again for one job, with the same arguments and --only, and waits for it. A
// process that ends without an outcome is a failure of that job.
Outcome run_apart(const Options& options, const Job& job);

// In that process: hands the outcome to the one that waits.
void send_outcome(const Outcome& outcome);

}  // namespace gemm
