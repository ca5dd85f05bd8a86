// Rungs that go wrong on purpose (bad_rungs.cu), compiled as rungs are:
//   refused_threads   a block of 2048 threads
//   refused_memory    a block with 1 MiB of shared memory
// and on the GPU alone, each of which breaks the device's context:
//   illegal_address   writes to address 8
//   misaligned        writes a float at an odd address
//   trap              gives up
#pragma once

#include "registry.h"

namespace gemm {

Rung sim_bad_rung(const char* name);
Rung gpu_bad_rung(const char* name);  // only in builds with CUDA

}  // namespace gemm
