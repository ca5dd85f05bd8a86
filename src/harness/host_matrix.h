// Guarded matrices in host memory: rounding to and reading of the storage types, filling, and the
// check. The GPU's versions of the same live in gpu/.
#pragma once

#include "harness/check.h"
#include "harness/device.h"
#include "harness/inputs.h"
#include "harness/problem.h"

namespace gemm {

// x rounded to the nearest value of the operand's type (ties to even), as a double.
double round_to(DType dtype, double x, Operand operand = Operand::C);

// As Device::fill, is_unchanged and check, on host memory.
void fill_host(void* allocation, const Problem& p, Operand operand, Inputs kind, uint64_t seed);
bool is_unchanged_host(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                       uint64_t seed);
CheckResult check_host(const void* c, const Problem& p, Inputs kind,
                       const HostReference& reference);

}  // namespace gemm
