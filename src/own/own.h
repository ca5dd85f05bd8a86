// Kernels of a user's own: files that the command line names among rungs.
#pragma once

#include <optional>

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm::own {

// Compiles the files that --kernel names, adds their gemm as rungs and puts those rungs' names in the
// files' places. What each takes is found out and printed. Empty: the command goes on; else another
// program has done it all, and this is how it ended. Throws UsageError.
std::optional<ExitStatus> take_files(Options& options);

// Tells the program that waits for this one, if one does, that the command has come to its end.
void report_end(ExitStatus status);

}  // namespace gemm::own
