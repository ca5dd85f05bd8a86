// What the functions of this folder are written with. Each stands for one PTX instruction, is named
// after it, and has two branches: inline PTX for the GPU, a call for the simulator.
#pragma once

#include "device/platform.h"

// Instructions that came with sm_80 or sm_90, or exist on sm_90a alone. A kernel that uses them
// compiles for any architecture, and traps on others; its Needs keep it from being launched there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GEMM_SM80_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM80_ASM(...) __trap()
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GEMM_SM90_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM90_ASM(...) __trap()
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GEMM_SM90A_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM90A_ASM(...) __trap()
#endif

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
// The 32-bit address that PTX wants for a pointer into shared memory.
GEMM_DEVICE uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
#endif

GEMM_BUILD_NAMESPACE_END
