// The command --explain.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// --explain: which variant would run, and why. Runs nothing.
ExitStatus explain(const Options& options);

}  // namespace gemm
