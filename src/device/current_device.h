// The GPU that a launch goes to, and what it has. Host code; nothing here is chosen once for all
// GPUs.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// The calling thread's current GPU; 0 in the simulator.
inline int current_device() {
  int device = 0;
#if GEMM_ON_GPU
  cudaGetDevice(&device);
#endif
  return device;
}

// The GPU on which a stream's work runs. CUDA tells since 12.8; before that, and of the default
// stream, it is the current one, so that a program with several GPUs then has to set it itself.
inline int device_of(Stream stream) {
#if GEMM_ON_GPU && CUDART_VERSION >= 12080
  int device = 0;
  if (stream != nullptr && cudaStreamGetDevice(stream, &device) == cudaSuccess) return device;
  cudaGetLastError();  // no such stream: the launch says so
#else
  static_cast<void>(stream);
#endif
  return current_device();
}

// Makes a GPU the calling thread's current one while this object lives. Throws std::runtime_error.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : before_(current_device()), changed_(device != before_) {
#if GEMM_ON_GPU
    if (!changed_) return;
    if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) {
      cudaGetLastError();
      throw std::runtime_error("cudaSetDevice(" + std::to_string(device) +
                               "): " + cudaGetErrorString(error));
    }
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

// What a rung chooses by. In the simulator that of an H200, so that a rung chooses there as it
// would on one.
struct DeviceLimits {
  int sm_count = 132;                 // multiprocessors
  bool clusters = true;               // thread block clusters, Hopper and later
  size_t shared_memory = 227 * 1024;  // of a block, when it asks for more than 48 KiB; bytes
};

// Of the current GPU. All GPUs are asked once a process; nothing of that starts one.
inline const DeviceLimits& device_limits() {
#if GEMM_ON_GPU
  static const std::vector<DeviceLimits> all = [] {
    int count = 0;
    cudaGetDeviceCount(&count);
    std::vector<DeviceLimits> limits;
    for (int device = 0; device < count; ++device) {
      int sms = 0, major = 0, bytes = 0;
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      limits.push_back({sms, major >= 9, size_t(bytes)});
    }
    return limits;
  }();
  static constexpr DeviceLimits none{0, false, 0};
  const size_t device = size_t(current_device());
  return device < all.size() ? all[device] : none;
#else
  static constexpr DeviceLimits h200;
  return h200;
#endif
}

inline int sm_count() { return device_limits().sm_count; }
inline bool has_clusters() { return device_limits().clusters; }
inline size_t shared_memory_limit() { return device_limits().shared_memory; }

GEMM_BUILD_NAMESPACE_END
