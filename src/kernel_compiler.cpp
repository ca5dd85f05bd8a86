#include "kernel_compiler.h"

namespace gemm {
namespace {
constinit thread_local KernelCompiler* compiler_of_this_thread = nullptr;
}

KernelCompiler* kernel_compiler() { return compiler_of_this_thread; }

KernelCompilerScope::KernelCompilerScope(KernelCompiler* compiler)
    : before_(compiler_of_this_thread) {
  compiler_of_this_thread = compiler;
}

KernelCompilerScope::~KernelCompilerScope() { compiler_of_this_thread = before_; }

}  // namespace gemm
