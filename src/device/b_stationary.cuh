// Which problems a column panel of B that stays in shared memory serves. Taught in v24r.
#pragma once

#include <cstdint>

#include "device/wgmma_epilogue.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether 128 columns of B with all of K fit in shared memory, beside a pipeline for A and tiles of
// C.
constexpr int B_STATIONARY_K = 512;
template <class T>
bool allows_b_stationary(const GemmArgs<T>& p) {
  return p.K > 0 && p.K <= B_STATIONARY_K && has_aligned_c(p) &&
         int64_t{cdiv(p.M, 64)} * cdiv(p.N, 128) < INT32_MAX;
}

GEMM_BUILD_NAMESPACE_END
