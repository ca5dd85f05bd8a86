// The GPU that a launch goes to, and what it has. Host code; nothing here is chosen once for all
// GPUs.
#pragma once

#include "device/platform.h"
#include "launch_mode.h"
#include "plan/arch.h"

GEMM_BUILD_NAMESPACE_BEGIN

// The calling thread's current GPU; 0 in the simulator.
inline int current_device() {
  int device = 0;
#if GEMM_ON_GPU
  cudaGetDevice(&device);
#endif
  return device;
}

// The GPU on which a stream's work runs: what the caller has said (LaunchMode), else what CUDA says
// since 12.8. Before that, of the default stream and of one that is captured it is the current GPU: a
// program with several GPUs then sets it itself.
inline int device_of(Stream stream) {
  if (const int known = launch_mode().device; known >= 0) return known;
#if GEMM_ON_GPU && CUDART_VERSION >= 12080
  // A captured stream must not be asked: that would end the capture with an error.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  int device = 0;
  if (stream != nullptr && cudaStreamIsCapturing(stream, &capture) == cudaSuccess &&
      capture == cudaStreamCaptureStatusNone && cudaStreamGetDevice(stream, &device) == cudaSuccess)
    return device;
  cudaGetLastError();  // no such stream: the launch says so
#else
  static_cast<void>(stream);
#endif
  return current_device();
}

#if GEMM_ON_GPU
// Makes a GPU the calling thread's current one. Throws std::runtime_error.
void set_device(int device);
#endif

// Makes a GPU the calling thread's current one while this object lives. Throws std::runtime_error.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : before_(current_device()), changed_(device != before_) {
#if GEMM_ON_GPU
    if (changed_) set_device(device);
#endif
  }
  ~DeviceScope() {
#if GEMM_ON_GPU
    if (changed_) cudaSetDevice(before_);
#endif
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const int before_;
  const bool changed_;
};

#if GEMM_ON_GPU
// Why a build with GEMM_GPU_SAMPLE (CMakeLists.txt) runs nothing on a GPU. Null: it has all kernels.
#if GEMM_GPU_SAMPLE
inline constexpr const char* ONLY_A_SAMPLE =
    "this build has a sample of the GPU's kernels, to be compiled and not to be run; configure "
    "with -DGEMM_GPU_SAMPLE=OFF";
#else
inline constexpr const char* ONLY_A_SAMPLE = nullptr;
#endif

// What planning knows of every GPU. All are asked once a process; nothing of that starts one.
struct GpuArchs {
  const Arch* all;
  int count;
  const Arch* begin() const { return all; }
  const Arch* end() const { return all + count; }
};
const GpuArchs& gpu_archs();
#endif

// The current GPU's architecture. In the simulator it is an H200's: rungs are planned there as on
// one.
inline const Arch& current_arch() {
#if GEMM_ON_GPU
  static const Arch none;
  const GpuArchs& gpus = gpu_archs();
  const int device = current_device();
  return device < gpus.count ? gpus.all[device] : none;
#else
  return simulated_arch();
#endif
}

inline int sm_count() { return current_arch().sms; }
inline bool has_clusters() { return current_arch().clusters; }
inline size_t shared_memory_limit() { return current_arch().shared_memory; }

GEMM_BUILD_NAMESPACE_END
