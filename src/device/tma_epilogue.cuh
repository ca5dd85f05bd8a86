// Accumulators to C through shared memory, in tiles. Taught in v23.
#pragma once

#include "device/swizzle.cuh"
#include "device/tma.h"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// The accumulators as T in panels of 64 x 64, swizzled as TMA wants them: by a warpgroup.
template <class T, int COUNT>
GEMM_DEVICE void stage_accumulators(uint8_t* sC, const float (&acc)[COUNT]) {
  const int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
#pragma unroll
  for (int i = 0; i < COUNT; i += 8) {  // 16 columns: four 8 x 8 matrices
    uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = pack_pair<T>(acc[i + 2 * w], acc[i + 2 * w + 1]);
    const int chunk = i / 4 % 8 + half;
    stmatrix(sC + i / 32 * 8192 + swizzle(Swizzle::b128, row * 128 + chunk * 16), words);
  }
}

GEMM_BUILD_NAMESPACE_END
