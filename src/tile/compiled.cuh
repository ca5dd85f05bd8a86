// Launches programs of tiles: by the kernel that was compiled with the program, or by one that is
// compiled at run time for the call alone, where the thread has a compiler for that.
#pragma once

#include "tile/tile.cuh"
#if GEMM_ON_GPU
#include <mutex>
#include <vector>

#include "tile/words.h"
#endif

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

#if GEMM_ON_GPU
// What the host knows of a kernel that is compiled for one call: it takes pointers alone.
struct NotKnownHere {
  static constexpr Call CALL = {};
};

// The kernel for a loop and a call, compiled when both are first met.
template <class Loop>
auto compiled(KernelCompiler& compiler, const char* kernel, const Call& call) {
  struct Known {
    const char* kernel;
    Call call;
    int device;
    void* function;
  };
  static std::mutex mutex;
  static std::vector<Known> all;
  const int device = current_device();
  const std::lock_guard lock(mutex);
  void* function = nullptr;
  for (const Known& k : all)
    if (k.device == device && k.call == call && k.kernel == kernel) function = k.function;
  if (function == nullptr) {
    function = compiler.kernel(program_of<Loop>(kernel, call));
    all.push_back({kernel, call, device, function});
  }
  return reinterpret_cast<void (*)(Gemm<Loop>)>(function);
}
#endif

// Tiles::launch of a kernel that has a name: "gemm_v29", the region "kernel" of its rung.
template <class Tiles, class T, class KernelOf>
void launch(const char* kernel, const GemmArgs<T>& p, int group_m, int ctas, Stream stream,
            KernelOf&& kernel_of) {
#if GEMM_ON_GPU
  if (KernelCompiler* const compiler = kernel_compiler())
    return Tiles::template launch<OneCall<NotKnownHere>>(
        p, group_m, ctas, stream, [&](auto loop, const Call& call) {
          return compiled<decltype(loop)>(*compiler, kernel, call);
        });
#else
  static_cast<void>(kernel);
#endif
  Tiles::launch(p, group_m, ctas, stream, kernel_of);
}

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
