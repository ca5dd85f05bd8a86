// The GPU as a Device, with what the timing needs beside it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <string>

#include "harness/device.h"
#include "harness/gpu/nvml.h"

namespace gemm {

class Blas;

// One GPU. Everything runs in order on one stream, from any thread, but from one at a time; each
// call makes this GPU the thread's current one while it runs. Failing CUDA calls throw
// std::runtime_error with one line that names the call, or DeviceFault when nothing can run any
// more; when memory runs out, std::bad_alloc.
class GpuDevice final : public Device {
 public:
  // Leaves `ordinal` the calling thread's current GPU, so that no other one is started.
  explicit GpuDevice(int ordinal);
  ~GpuDevice() override;
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  Backend backend() const override { return Backend::gpu; }
  std::string name() const override { return properties_.name; }
  int sm() const override { return properties_.major * 10 + properties_.minor; }
  CodeArch code() const override { return code_; }
  const Arch& arch() const override;
  void* allocate(size_t bytes) override;
  void release(void* p) override;
  void download(void* host, const void* device, size_t bytes) override;
  void upload(void* device, const void* host, size_t bytes) override;
  void fill(void* allocation, const Problem& p, Operand operand, Inputs kind,
            uint64_t seed) override;  // returns before it is done, as later work waits for it
  bool is_unchanged(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                    uint64_t seed) override;
  void run(const Rung& rung, const GemmCall& call) override;
  std::unique_ptr<Reference> reference(const Problem& p, uint64_t seed) override;
  CheckResult check(const void* c, const Problem& p, Inputs kind, uint64_t seed,
                    const Reference* reference) override;

  // Launches without waiting. Throws LaunchError when the launch is refused, DeviceFault when an
  // earlier kernel broke the context, std::bad_alloc when there is no memory for its workspace.
  void enqueue(const Rung& rung, const GemmCall& call);
  void synchronize();
  // Fills a whole allocation with uniform numbers in [-1, 1), in one launch.
  void fill_random(void* allocation, size_t bytes, Element element, uint64_t seed);
  // The baselines' cuBLAS, made when first asked for: to make one takes longer than most problems.
  const Blas& blas(size_t workspace_bytes);
  // Asks the GPU what its code was compiled for; code() knows it from then on.
  void find_code();

  int ordinal() const { return ordinal_; }
  cudaStream_t stream() const { return stream_; }
  const cudaDeviceProp& properties() const { return properties_; }
  const Nvml& nvml() const { return nvml_; }

 private:
  // The grid of a kernel that goes through so many elements in a loop.
  unsigned blocks_for(int64_t elements) const;

  const int ordinal_;
  cudaDeviceProp properties_;
  CodeArch code_;
  Nvml nvml_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Blas> blas_;
};

// The GPU behind a Device. Throws std::invalid_argument for the simulator.
GpuDevice& as_gpu(Device& device);

// For with_element.
struct GpuTypes {
  using f32 = float;
  using f16 = __half;
  using bf16 = __nv_bfloat16;
  using f8e4m3 = __nv_fp8_e4m3;
  using f8e5m2 = __nv_fp8_e5m2;
};

// Device memory that frees itself.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, size_t bytes) : device_(device), p_(device.allocate(bytes)) {}
  ~DeviceMemory() { device_.release(p_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(p_);
  }

 private:
  Device& device_;
  void* p_;
};

// The result that a problem should have, on the GPU: a dense M x N row-major matrix of doubles.
struct GpuReference : Reference {
  GpuReference(Device& device, const Problem& p);
  DeviceMemory want;
};

// Double precision on the GPU, for problems that would take the CPU too long. Checked against
// cpu_reference on its first use. Throws std::runtime_error when the two disagree.
std::unique_ptr<GpuReference> gpu_reference(GpuDevice& device, const Problem& p, uint64_t seed);

}  // namespace gemm
