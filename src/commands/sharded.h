// gemm_bench --gpus N: products sharded over several devices.
#pragma once

#include "commands/exit_status.h"
#include "harness/cli.h"

namespace gemm {

// Verifies the sharded rungs on each problem and, on GPUs, times them by turns against a collective
// followed by a GEMM. Throws UsageError.
ExitStatus run_sharded(const Options& options);

}  // namespace gemm
