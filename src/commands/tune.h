// The command --tune.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// --tune: times the variants of each rung at each shape and keeps what was found.
ExitStatus tune(const Options& options);

}  // namespace gemm
