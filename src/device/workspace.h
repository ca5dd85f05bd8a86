// Scratch memory of one launch, for a rung that repacks its operands or adds up partial results.
// Host code.
#pragma once

#include "device/current_device.h"
#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
// Throws std::bad_alloc when memory ran out, std::runtime_error for everything else.
void check_workspace(cudaError_t error, const char* call);

// The memory pool of one GPU's workspaces, made when first asked for. The default pool is left
// alone: it belongs to the program that calls. This one keeps what is freed, where a pool usually
// gives its memory back whenever a stream is waited for, and the next launch pays for it again:
// hundreds of microseconds. Never destroyed: at exit CUDA may be gone first.
cudaMemPool_t workspace_pool(int device);
#endif

// Owned by the launch, ordered like its kernels: on the GPU allocated and freed on the stream, so
// that neither waits for the other, from a pool of the stream's GPU. While the stream is captured,
// both become nodes of the graph, which then owns the memory: each launch of the graph has it.
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
    if (launch_mode().prepare) {
      p_ = launch_mode().take(bytes);
#if GEMM_ON_GPU
      workspace_pool(device_of(stream));
#endif
      return;
    }
#if GEMM_ON_GPU
    check_workspace(cudaMallocFromPoolAsync(&p_, bytes, workspace_pool(device_of(stream)), stream),
                    "cudaMallocFromPoolAsync");
#else
    p_ = sim::runtime::workspace_allocate(bytes);
#endif
  }
  // Not checked: it can only repeat an earlier kernel's failure.
  ~Workspace() {
    if (p_ == nullptr) return;
    if (launch_mode().prepare) {
      launch_mode().give(bytes_);
      return;
    }
#if GEMM_ON_GPU
    cudaFreeAsync(p_, stream_);
#else
    sim::runtime::workspace_release(p_, stream_);
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
    if (p_ == nullptr || launch_mode().prepare) return;
#if GEMM_ON_GPU
    check_workspace(cudaMemsetAsync(p_, 0, bytes_, stream_), "cudaMemsetAsync");
#else
    sim::runtime::workspace_zero(p_, stream_);
#endif
  }

 private:
  void* p_ = nullptr;
  size_t bytes_;
  Stream stream_;
};

GEMM_BUILD_NAMESPACE_END
