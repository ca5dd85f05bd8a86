// The cuBLAS handle of a rung that calls cuBLAS. Host code only. The simulator's stand-in computes
// the same calls on the CPU.
#pragma once

#include "device/platform.h"

#if GEMM_ON_GPU
#include <cublas_v2.h>

#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A handle for one call on one stream, with a 32 MiB workspace in that stream's order: no other
// call, thread, stream or GPU uses either meanwhile. The handle goes back to its GPU's pool and is
// used again. The current GPU has to be the stream's, as in a Launcher. Throws std::runtime_error or
// std::bad_alloc.
class BlasHandle {
 public:
  explicit BlasHandle(Stream stream);
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  const int device_;
  const Workspace workspace_;
  cublasHandle_t handle_;
};

// As an argument of the call: it lives until cuBLAS has queued its kernels.
inline BlasHandle blas_handle(Stream stream) { return BlasHandle(stream); }

// Throws std::runtime_error with cuBLAS's own words unless the call succeeded.
void blas_check(cublasStatus_t status);

GEMM_BUILD_NAMESPACE_END
#else
#include "sim/blas.h"
#endif
