// Flags and fences between the devices of one host: what a kernel on one GPU, a copy engine and a
// kernel on another GPU tell each other through memory that all of them reach.
//
// A flag is a uint32_t that only rises: who waits names the value that it needs, so nobody has to
// set it back. Counters may wrap around.
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// red.release.sys.add: who sees the sum through signal_wait sees what the thread wrote before, and
// what it knows others to have written. Of other threads of the block: after a barrier.
GEMM_DEVICE void signal_add(uint32_t* flag, uint32_t value GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
  sim::runtime::signal_add(flag, value GEMM_CALLER_PASS);
#endif
}

// st.release.sys: the same for a flag that one thread alone raises.
GEMM_DEVICE void signal_set(uint32_t* flag, uint32_t value GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
  sim::runtime::signal_set(flag, value GEMM_CALLER_PASS);
#endif
}

// ld.acquire.sys until the flag has come to `at_least`. What raises it must not queue behind the
// waiting kernel. Before TMA reads what the flag has announced: fence_proxy_async_global.
GEMM_DEVICE void signal_wait(const uint32_t* flag, uint32_t at_least GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  uint32_t now = 0;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(now) : "l"(flag) : "memory");
  } while (static_cast<int32_t>(now - at_least) < 0);
#else
  sim::runtime::signal_wait(flag, at_least GEMM_CALLER_PASS);
#endif
}

// fence.proxy.async.global: what the thread knows of global memory by ordinary loads and stores
// comes before what TMA does there after. Between a signal_wait and the TMA load of what it
// announced; between ordinary stores and a TMA store to the same place.
GEMM_DEVICE void fence_proxy_async_global() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("fence.proxy.async.global;" ::: "memory");
#else
  sim::runtime::fence_proxy_async_global();
#endif
}

GEMM_BUILD_NAMESPACE_END
