// Dynamic shared memory: as much as a launch asks for.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// The block's dynamic shared memory, aligned as the widest TMA swizzle wants it. Tiles of TMA and
// wgmma lie here; in a cluster everything does (the simulator's __shared__ variables belong to an
// OS thread, and a cluster's blocks share one).
GEMM_DEVICE void* dynamic_shared() {
#if GEMM_ON_GPU
  extern __shared__ __align__(1024) unsigned char gemm_dynamic_shared[];
  return gemm_dynamic_shared;
#else
  return sim::dynamic_shared();
#endif
}

GEMM_BUILD_NAMESPACE_END
