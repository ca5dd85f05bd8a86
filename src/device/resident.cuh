// Which problems a strip of B that stays in shared memory serves. Taught in v24r.
#pragma once

#include <cstdint>

#include "device/wgmma_epilogue.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether 128 columns of B with all of K fit in shared memory, beside a ring for A and tiles of C.
constexpr int RESIDENT_K = 512;
template <class T>
bool allows_resident(const GemmArgs<T>& p) {
  return p.K > 0 && p.K <= RESIDENT_K && has_wide_rows(p) &&
         int64_t{cdiv(p.M, 64)} * cdiv(p.N, 128) < INT32_MAX;
}

GEMM_BUILD_NAMESPACE_END
