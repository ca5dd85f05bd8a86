// The compiler of --jit: NVRTC, for the GPU on which a launch is made.
#pragma once

#include <memory>
#include <string>

#include "kernel_compiler.h"

namespace gemm {

struct JitCost {
  int kernels = 0;
  double ms = 0;
};

class JitCompiler : public KernelCompiler {
 public:
  virtual std::string name() const = 0;  // "NVRTC 13.0"
  virtual JitCost cost() const = 0;      // of all kernels until now
};

// Throws UsageError when there is no NVRTC.
std::unique_ptr<JitCompiler> make_jit_compiler();

}  // namespace gemm
