// The command --list.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// --list: the rungs of the backend, one a line.
ExitStatus list(const Options& options);

}  // namespace gemm
