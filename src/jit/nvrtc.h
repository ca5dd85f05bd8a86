// NVRTC, the compiler of CUDA C++ at run time, and the programs that it is given. No GPU is needed.
#pragma once

#include <memory>
#include <string>

#include "kernel_compiler.h"

namespace gemm {

struct CompiledKernel {
  std::string cubin;
  std::string name;  // as the CUBIN calls the kernel
  double ms = 0;     // that compiling took
};

// The source that NVRTC compiles: the tile layer, the rung's kernel, and the call.
std::string source_of(const KernelProgram& program);

// The library is looked for at run time, by its name: a program that never compiles needs none, and
// one that was built here finds that of another machine.
class Nvrtc {
 public:
  // Throws UsageError when there is no NVRTC.
  Nvrtc();
  ~Nvrtc();
  std::string version() const;  // "13.0"
  // `arch`: "sm_90a". Throws std::runtime_error with the log.
  CompiledKernel compile(const KernelProgram& program, const std::string& arch) const;

 private:
  struct Functions;
  std::unique_ptr<Functions> f_;
};

}  // namespace gemm
