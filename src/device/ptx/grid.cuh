// Order between kernels, and between the blocks of one: programmatic dependent launch (PTX ISA,
// "griddepcontrol"; LaunchOptions::pdl), and flags in global memory.
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

// st.release.gpu: who sees `value` there through flag_wait sees what the thread wrote before.
GEMM_DEVICE void flag_set(uint64_t* flag, uint64_t value) {
#if GEMM_ON_GPU
  asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
#else
  sim::runtime::flag_set(flag, value);
#endif
}

// ld.acquire.gpu until it is `value`. Wait only for blocks with a lower index, which set it without
// waiting for others: those have been started before.
GEMM_DEVICE void flag_wait(const uint64_t* flag, uint64_t value GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  uint64_t now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(now) : "l"(flag) : "memory");
  } while (now != value);
#else
  sim::runtime::flag_wait(flag, value GEMM_CALLER_PASS);
#endif
}

GEMM_BUILD_NAMESPACE_END
