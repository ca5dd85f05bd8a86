// When the B-stationary kernel can run. Taught in v24r.
#pragma once

#include <cstdint>

#include "device/wgmma_epilogue.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Largest K for which 128 columns of B stay in shared memory, beside A's pipeline and C's epilogue
// stages.
constexpr int B_STATIONARY_K = 512;
// Whether K is short enough and C's rows are aligned.
template <class T>
bool allows_b_stationary(const GemmArgs<T>& p) {
  return p.K > 0 && p.K <= B_STATIONARY_K && has_aligned_c(p) &&
         int64_t{cdiv(p.M, 64)} * cdiv(p.N, 128) < INT32_MAX;
}

GEMM_BUILD_NAMESPACE_END
