// --jit on a GPU: CUBINs of NVRTC, loaded by the runtime.
#include "harness/jit.h"

#include <fmt/format.h>

#include <mutex>

#include "harness/errors.h"
#include "harness/gpu/cuda_check.h"
#include "jit/nvrtc.h"

namespace gemm {
namespace {

#if CUDART_VERSION >= 12080  // cudaLibraryLoadData; before, only the driver's library has it
// "sm_90a": with all that this GPU has beyond others of its number.
std::string current_arch_name() {
  int device = 0, major = 0, minor = 0;
  GEMM_CUDA(cudaGetDevice(&device));
  GEMM_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  GEMM_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

class NvrtcCompiler : public JitCompiler {
 public:
  std::string name() const override { return "NVRTC " + nvrtc_.version(); }
  JitCost cost() const override {
    const std::lock_guard lock(mutex_);
    return cost_;
  }
  // Kernels are not unloaded: the launches that use them know no end.
  void* kernel(const KernelProgram& program) override {
    const CompiledKernel compiled = nvrtc_.compile(program, current_arch_name());
    cudaLibrary_t library = nullptr;
    cudaKernel_t kernel = nullptr;
    GEMM_CUDA(cudaLibraryLoadData(&library, compiled.cubin.data(), nullptr, nullptr, 0, nullptr,
                                  nullptr, 0));
    GEMM_CUDA(cudaLibraryGetKernel(&kernel, library, compiled.name.c_str()));
    const std::lock_guard lock(mutex_);
    ++cost_.kernels;
    cost_.ms += compiled.ms;
    return kernel;
  }

 private:
  Nvrtc nvrtc_;
  mutable std::mutex mutex_;
  JitCost cost_;
};
#endif

}  // namespace

std::unique_ptr<JitCompiler> make_jit_compiler() {
#if CUDART_VERSION >= 12080
  return std::make_unique<NvrtcCompiler>();
#else
  throw UsageError("--jit wants a build with CUDA 12.8 or later");
#endif
}

}  // namespace gemm
