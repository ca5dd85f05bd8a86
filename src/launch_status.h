// How a kernel's launch went.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemm {

// How a kernel's launch went: 0, or the error of the CUDA call that refused it.
struct LaunchStatus {
  int code = 0;  // cudaError_t
  const char* name = "cudaSuccess";
  const char* text = "no error";
  const char* call = "";  // "cudaLaunchKernelEx"
  bool ok() const { return code == 0; }
};
// What LaunchMode::stream refuses: nobody would wait for this kernel, nor time it.
inline constexpr LaunchStatus ON_ANOTHER_STREAM = {
    400, "cudaErrorInvalidResourceHandle", "the kernel's stream is not the call's", "gemm::launch"};

// Throws std::bad_alloc when memory ran out (cudaErrorMemoryAllocation), else LaunchRefused.
[[noreturn]] void throw_refused(const LaunchStatus& status, int64_t grid, int threads, size_t smem);
// Throws std::runtime_error: "what: why".
[[noreturn]] void throw_failed(const char* what, const char* why);

}  // namespace gemm
