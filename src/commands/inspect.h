// The command --inspect.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// --inspect: the traced build of each rung, in place of a benchmark.
ExitStatus inspect(const Options& options);

}  // namespace gemm
