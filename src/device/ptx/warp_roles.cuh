// Warps with different roles: barriers of some of them, their registers, one thread of a warp (PTX
// ISA, "bar", "setmaxnreg", "elect.sync").
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// bar.sync: waits until `threads` threads (whole warps) have come to named barrier `id`, 1 to 15;
// 0 is __syncthreads.
GEMM_DEVICE void named_barrier_sync(int id, int threads GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  sim::runtime::named_barrier(id, threads, /*waits=*/true GEMM_CALLER_PASS);
#endif
}

// bar.arrive: counts as come, and goes on.
GEMM_DEVICE void named_barrier_arrive(int id, int threads GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  sim::runtime::named_barrier(id, threads, /*waits=*/false GEMM_CALLER_PASS);
#endif
}

// setmaxnreg.inc and .dec: by all warps of a warpgroup; takes registers from the block's pool, once
// they are there, or gives them back.
template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_inc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "PTX ISA, setmaxnreg");
#if GEMM_ON_GPU
  // [region inc]
  GEMM_SM90A_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
  // [/region inc]
#endif
}
template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_dec() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "PTX ISA, setmaxnreg");
#if GEMM_ON_GPU
  // [region dec]
  GEMM_SM90A_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
  // [/region dec]
#endif
}

// elect.sync: true in one lane of a whole warp, which the compiler then knows to be one.
GEMM_DEVICE bool elect_one() {
#if GEMM_ON_GPU
  uint32_t elected = 0;
  // [region elect]
  GEMM_SM90_ASM(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  // [/region elect]
  return elected != 0;
#else
  return sim::runtime::lane() == 0;
#endif
}

// The warpgroup that this thread is in, the same for all lanes of a warp. The compiler does not
// know that of threadIdx.x / 128: all that follows from it, descriptors of wgmma above all, it
// would keep in every lane and move to uniform registers each time, 105 instructions in a loop over
// a k-tile instead of 72.
GEMM_DEVICE int warpgroup() { return __shfl_sync(~0u, threadIdx.x / 128, 0); }

GEMM_BUILD_NAMESPACE_END
