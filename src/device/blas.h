// The cuBLAS handle of a rung that calls cuBLAS: one a process, on the rung's stream, with a 32 MiB
// workspace. Host code only. The simulator's stand-in computes the same calls on the CPU.
#pragma once

#include "device/platform.h"

#if GEMM_ON_GPU
#include <cublas_v2.h>

GEMM_BUILD_NAMESPACE_BEGIN

// Throws std::runtime_error or std::bad_alloc when cuBLAS cannot be set up. Not thread-safe.
cublasHandle_t blas_handle(Stream stream);

// Throws std::runtime_error with cuBLAS's own words unless the call succeeded.
void blas_check(cublasStatus_t status);

GEMM_BUILD_NAMESPACE_END
#else
#include "sim/blas.h"
#endif
