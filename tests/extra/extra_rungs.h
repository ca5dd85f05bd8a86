// Rungs that no course needs and tests do (extra_rungs.cu), compiled as rungs are, in each build:
//   repacks   multiplies what Repacked makes of its operands, with its padding: any wrong byte shows
#pragma once

#include <vector>

#include "registry.h"

namespace gemm {

std::vector<Rung> sim_extra_rungs();
std::vector<Rung> traced_extra_rungs();  // the same, every access seen
std::vector<Rung> gpu_extra_rungs();     // the same; only in builds with CUDA

}  // namespace gemm
