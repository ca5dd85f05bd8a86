// Scratch memory of one launch, for a rung that repacks its operands or adds up partial results.
// Host code.
#pragma once

#include <new>
#include <stdexcept>

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Owned by the launch, ordered like its kernels: on the GPU allocated and freed on the stream, so
// that neither waits for the other; freed memory stays in the device's pool for the next launch.
// Holds no useful values until a kernel has written it (the simulator checks that, and the bounds,
// under --inspect).
//
//   const Workspace partial(bytes, stream);
//   gemm::launch(kernel, ..., partial.as<float>());  // the kernel may run when `partial` is gone
class Workspace {
 public:
  // 256-byte aligned. Throws std::bad_alloc when there is not enough, std::runtime_error when the
  // device has no such memory.
  Workspace(size_t bytes, Stream stream) : bytes_(bytes), stream_(stream) {
    if (bytes == 0) return;
#if GEMM_ON_GPU
    static const bool kept = keep_freed_memory();
    static_cast<void>(kept);
    check(cudaMallocAsync(&p_, bytes, stream), "cudaMallocAsync");
#else
    p_ = sim::runtime::workspace_allocate(bytes);
#endif
  }
  // Not checked: it can only repeat an earlier kernel's failure.
  ~Workspace() {
    if (p_ == nullptr) return;
#if GEMM_ON_GPU
    cudaFreeAsync(p_, stream_);
#else
    sim::runtime::workspace_release(p_);
#endif
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(p_);
  }
  size_t bytes() const { return bytes_; }

  // Sets every byte to zero, in stream order.
  void zero() const {
    if (p_ == nullptr) return;
#if GEMM_ON_GPU
    check(cudaMemsetAsync(p_, 0, bytes_, stream_), "cudaMemsetAsync");
#else
    sim::runtime::workspace_zero(p_);
#endif
  }

 private:
#if GEMM_ON_GPU
  static void check(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // so that no later check reports it again
    if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
  }
  // By default a pool gives its memory back whenever the stream is waited for, and the next launch
  // would pay for it again: hundreds of microseconds.
  static bool keep_freed_memory() {
    int device = 0;
    cudaMemPool_t pool = nullptr;
    uint64_t all = UINT64_MAX;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
          "cudaMemPoolSetAttribute");
    return true;
  }
#endif

  void* p_ = nullptr;
  size_t bytes_;
  Stream stream_;
};

GEMM_BUILD_NAMESPACE_END
