// cp.async: copies of 16 or 4 bytes from global to shared memory, without waiting (PTX ISA,
// "cp.async").
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// cp.async.cg: 16 bytes from global to shared memory past the registers, both addresses 16-byte
// aligned. Reads the first `src_bytes` (0..16) bytes and fills the rest with zeros; with 0 nothing
// is read. Complete only after cp_async_wait.
GEMM_DEVICE void cp_async_16(void* shared, const void* global, int src_bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region cp_async_16]
  GEMM_SM80_ASM("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                "l"(global), "r"(src_bytes)
                : "memory");
  // [/region cp_async_16]
#else
  sim::cp_async(shared, global, 16, src_bytes GEMM_CALLER_PASS);
#endif
}

// cp.async.ca: 4 bytes, through L1; both addresses 4-byte aligned. With src_bytes 0 nothing is read,
// and a zero written. Complete only after cp_async_wait.
GEMM_DEVICE void cp_async_4(void* shared, const void* global, int src_bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
                "l"(global), "r"(src_bytes)
                : "memory");
#else
  sim::cp_async(shared, global, 4, src_bytes GEMM_CALLER_PASS);
#endif
}

// cp.async.commit_group: closes this thread's current group of copies.
GEMM_DEVICE void cp_async_commit() {
#if GEMM_ON_GPU
  // [region cp_async_commit]
  GEMM_SM80_ASM("cp.async.commit_group;" ::: "memory");
  // [/region cp_async_commit]
#else
  sim::cp_async_commit();
#endif
}

// cp.async.wait_group: returns when at most PENDING of this thread's groups are still in flight.
template <int PENDING>
GEMM_DEVICE void cp_async_wait() {
#if GEMM_ON_GPU
  // [region cp_async_wait]
  GEMM_SM80_ASM("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
  // [/region cp_async_wait]
#else
  sim::cp_async_wait(PENDING);
#endif
}

GEMM_BUILD_NAMESPACE_END
