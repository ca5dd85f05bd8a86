// What launches ask of the GPUs: compiled once, and not with every rung.
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "device/current_device.h"
#include "device/workspace.h"
#include "launch_status.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace {

// Throws std::runtime_error. Clears CUDA's last error, so that no later check reports it again.
[[noreturn]] void fail(const std::string& call, cudaError_t error) {
  cudaGetLastError();
  throw_failed(call.c_str(), cudaGetErrorString(error));
}

}  // namespace

void set_device(int device) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess)
    fail("cudaSetDevice(" + std::to_string(device) + ")", error);
}

const GpuArchs& gpu_archs() {
  static const GpuArchs all = [] {
    static std::vector<cudaDeviceProp> properties;  // whose names the archs point to
    static std::vector<Arch> archs;
    int count = 0;
    cudaGetDeviceCount(&count);
    properties.resize(size_t(count));
    for (int device = 0; device < count; ++device) {
      cudaDeviceProp& p = properties[size_t(device)];
      cudaGetDeviceProperties(&p, device);
      archs.push_back({.name = p.name,
                       .sms = p.multiProcessorCount,
                       .ctas = p.multiProcessorCount,
                       .clusters = p.major >= 9,
                       .shared_memory = p.sharedMemPerBlockOptin,
                       .costs = &costs_of(p.name)});
    }
    return GpuArchs{archs.data(), count};
  }();
  return all;
}

void check_workspace(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  if (error != cudaErrorMemoryAllocation) fail(call, error);
  cudaGetLastError();
  throw std::bad_alloc();
}

cudaMemPool_t workspace_pool(int device) {
  constexpr int MOST = 256;  // GPUs of one process
  static std::atomic<cudaMemPool_t> pools[MOST];
  if (device >= MOST)
    throw_failed(("GPU " + std::to_string(device)).c_str(),
                 ("workspaces are for GPUs 0 to " + std::to_string(MOST - 1)).c_str());
  cudaMemPool_t pool = pools[device];
  if (pool != nullptr) return pool;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  uint64_t all = UINT64_MAX;
  // To make a pool is no work of a stream: allowed while this thread captures one.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaMemPool_t made = nullptr;
  const cudaError_t error = cudaMemPoolCreate(&made, &properties);
  cudaThreadExchangeStreamCaptureMode(&mode);
  check_workspace(error, "cudaMemPoolCreate");
  check_workspace(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &all),
                  "cudaMemPoolSetAttribute");
  if (pools[device].compare_exchange_strong(pool, made)) return made;
  cudaMemPoolDestroy(made);  // another thread was first
  return pool;
}

GEMM_BUILD_NAMESPACE_END
