// The launch of a kernel. Host code.
#pragma once

#include <utility>

#include "device/current_device.h"
#include "device/gemm_args.h"
#include "device/platform.h"
#include "launch_status.h"

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
constexpr Backend BACKEND = Backend::gpu;
#elif defined(GEMM_SIM_TRACED)
constexpr Backend BACKEND = Backend::sim_traced;
#else
constexpr Backend BACKEND = Backend::sim;
#endif

struct LaunchOptions {
  size_t smem = 0;   // dynamic shared memory, bytes
  int cluster = 1;   // blocks a cluster, along x
  bool pdl = false;  // may start before the kernel before it has ended; calls grid_dependency_wait
};

// Launches kernel(args...) on `grid` blocks (one-dimensional: y and z stop at 65535 blocks, which a
// tall matrix exceeds), and says how that went. An empty grid launches nothing. The current GPU has
// to be the stream's, as in a Launcher. options.smem is the same at every launch of a kernel: its
// limit belongs to the kernel, and two threads would overwrite each other's. Prepares the launch
// where the thread's LaunchMode says so.
// In the simulator the kernel has run on return; what it did wrong is thrown as a sim::Error. Only
// on a stream of sim::Devices it runs later.
template <class... Params, class... Args>
[[nodiscard]] LaunchStatus try_launch(void (*kernel)(Params...), int64_t grid, dim3 block,
                                      LaunchOptions options, Stream stream, Args... args) {
  if (grid == 0) return {};
  if (const void* const own = launch_mode().stream; own != nullptr && own != stream)
    return ON_ANOTHER_STREAM;
#if GEMM_ON_GPU
  if (ONLY_A_SAMPLE != nullptr)
    return {int(cudaErrorNotSupported), "cudaErrorNotSupported", ONLY_A_SAMPLE, "gemm::launch"};
  const auto failed = [](cudaError_t error, const char* call) -> LaunchStatus {
    cudaGetLastError();  // so that no later check reports it again
    return {int(error), cudaGetErrorName(error), cudaGetErrorString(error), call};
  };
  if (grid < 0 || grid > INT32_MAX) return failed(cudaErrorInvalidConfiguration, "grid");
  const LaunchMode& mode = launch_mode();
  if (options.smem > 48 * 1024 && !mode.prepared)
    if (const cudaError_t error = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(options.smem));
        error != cudaSuccess)
      return failed(error, "cudaFuncSetAttribute");
  if (mode.prepare && mode.prepared) return {};
  if (mode.prepare) {
    cudaFuncAttributes attributes{};  // to ask for these loads the kernel
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    return error == cudaSuccess ? LaunchStatus{} : failed(error, "cudaFuncGetAttributes");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid));
  config.blockDim = block;
  config.dynamicSmemBytes = options.smem;
  config.stream = stream;
  cudaLaunchAttribute attributes[2]{};
  config.attrs = attributes;
  if (options.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(options.cluster), 1, 1};
  }
  if (options.pdl) {
    cudaLaunchAttribute& pdl = attributes[config.numAttrs++];
    pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
  }
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, Params(args)...);
  return error == cudaSuccess ? LaunchStatus{} : failed(error, "cudaLaunchKernelEx");
#else
  if (launch_mode().prepare) return {};
  const sim::LaunchConfig config{grid, block, options.smem, options.cluster, options.pdl};
  if (sim::runtime::is_queued(stream))
    sim::launch_on(
        stream, reinterpret_cast<const void*>(kernel),
        [kernel, ... args = std::move(args)] { kernel(Params(args)...); }, config);
  else
    sim::launch([&] { kernel(Params(args)...); }, config);
  return {};
#endif
}

// Launches, and throws what is not a success: std::bad_alloc or LaunchRefused. So no later kernel of
// the call runs on what this one has not written.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), int64_t grid, dim3 block, LaunchOptions options,
            Stream stream, Args... args) {
  const LaunchStatus status = try_launch(kernel, grid, block, options, stream, args...);
  if (!status.ok()) throw_refused(status, grid, int(block.x * block.y * block.z), options.smem);
}

// Whether a fused kernel is better: where a plain one has not all, or not the fast functions.
inline bool wants_fused(const FusedEpilogue& e) {
  return !e.is_plain() || info(e.activation).roundings > 1;
}

GEMM_BUILD_NAMESPACE_END
