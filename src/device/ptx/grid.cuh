// Order between kernels: programmatic dependent launch (PTX ISA, "griddepcontrol";
// LaunchOptions::pdl).
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// griddepcontrol.wait: returns when the kernels before this one in the stream have ended and what
// they wrote is visible. Before a block touches global memory, by its threads or by one that the
// others wait for. Below sm_90 no kernel begins before that.
GEMM_DEVICE void grid_dependency_wait() {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#elif !GEMM_ON_GPU
  sim::runtime::grid_dependency_wait();
#endif
}

// Waits when a and b, neither negative, are known. The condition is one that ptxas cannot see
// through. Else it moves the divisions that they come from behind the wait, where they delay a
// kernel's first load.
GEMM_DEVICE void grid_dependency_wait(int a, int b) {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile(
      "{\n"
      "  .reg .pred known;\n"
      "  setp.ge.s32 known, %0, 0;\n"
      "  @known griddepcontrol.wait;\n"
      "}\n" ::"r"(a | b)
      : "memory");
#else
  static_cast<void>(a), static_cast<void>(b);
  grid_dependency_wait();
#endif
}

// griddepcontrol.launch_dependents: from now on, as far as this block is concerned, the next kernel
// may start.
GEMM_DEVICE void grid_launch_dependents() {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

GEMM_BUILD_NAMESPACE_END
