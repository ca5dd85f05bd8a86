// Every CUDA call is wrapped: one line that names the failing call.
#pragma once

#include <cuda_runtime.h>

#include <new>
#include <stdexcept>
#include <string>

#include "device_errors.h"

namespace gemm {

inline std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

// Whether the current device's context is broken: a fault such as an illegal address is reported by
// every later call, while a refused launch is forgotten once it has been read. No list of error
// codes, which grows with each CUDA version. Forgets the last error.
inline bool context_is_broken() {
  cudaGetLastError();
  const cudaError_t error = cudaStreamQuery(cudaStreamLegacy);
  cudaGetLastError();
  // Not a fault: work is still queued, or a stream of this context is being captured.
  return error != cudaSuccess && error != cudaErrorNotReady &&
         error != cudaErrorStreamCaptureImplicit;
}

// What went wrong, in the type that says whether the device can go on: DeviceFault or Error.
template <class Error>
[[noreturn]] void throw_cuda(const std::string& what) {
  if (context_is_broken()) throw DeviceFault(what);
  throw Error(what);
}

// Throws std::bad_alloc when memory ran out, DeviceFault when the context is broken,
// std::runtime_error for everything else. No later check reports the error again.
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  throw_cuda<std::runtime_error>(std::string(call) + ": " + describe(error));
}

#define GEMM_CUDA(call) ::gemm::check_cuda((call), #call)

}  // namespace gemm
