// Kernels whose blocks live as long as the kernel and take tile after tile. Taught in v21.
#pragma once

#include "device/scheduler.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Blocks that run at the same time, one an SM. In the simulator few, so that small problems give
// each of them several tiles.
inline int persistent_blocks() { return GEMM_ON_GPU ? sm_count() : 4; }

// Calls work(m, n) for every `step`-th tile from `first` on.
template <int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  for (int64_t tile = first; tile < int64_t{tiles_m} * tiles_n; tile += step) {
    const auto [m, n] = grouped_tile<GROUP_M>(tile, tiles_m, tiles_n);
    work(m, n);
  }
}

GEMM_BUILD_NAMESPACE_END
