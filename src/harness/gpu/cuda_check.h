// Every CUDA and cuBLAS call of the harness is wrapped: one line that names the failing call.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <new>
#include <stdexcept>
#include <string>

namespace gemm {

inline std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Throws std::bad_alloc when memory ran out, std::runtime_error for everything else.
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // so that a later check does not report this error again
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  throw std::runtime_error(std::string(call) + ": " + describe(error));
}

inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();  // as above: cuBLAS leaves the runtime's error behind
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status) + " (" +
                           cublasGetStatusName(status) + ")");
}

#define GEMM_CUDA(call) ::gemm::check_cuda((call), #call)
#define GEMM_CUBLAS(call) ::gemm::check_cublas((call), #call)

}  // namespace gemm
