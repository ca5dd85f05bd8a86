// Every CUDA and cuBLAS call of the harness is wrapped: one line that names the failing call.
#pragma once

#include <cublas_v2.h>

#include "sharded/gpu/cuda_check.h"

namespace gemm {

// As check_cuda: cuBLAS leaves the runtime's error behind. Error: in place of std::runtime_error.
template <class Error = std::runtime_error>
void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  throw_cuda<Error>(std::string(call) + ": " + cublasGetStatusString(status) + " (" +
                    cublasGetStatusName(status) + ")");
}

#define GEMM_CUBLAS(call) ::gemm::check_cublas((call), #call)

}  // namespace gemm
