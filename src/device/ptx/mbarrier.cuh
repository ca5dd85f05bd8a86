// mbarrier: arrivals and bytes, counted in shared memory (PTX ISA, "mbarrier").
//
// An mbarrier's phase completes when `count` threads have arrived and all bytes that they announced
// have come; the next phase begins at once. Phases are told apart by their parity: the first is 0.
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// mbarrier.init: one thread, then fence_mbarrier_init and a barrier of all who will use it.
GEMM_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t count GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
                : "memory");
#else
  sim::runtime::mbarrier_init(barrier, count GEMM_CALLER_PASS);
#endif
}

// fence.mbarrier_init: makes the thread's mbarrier_init visible to TMA and to the cluster.
GEMM_DEVICE void fence_mbarrier_init() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
  sim::runtime::fence_mbarrier_init();
#endif
}

// mbarrier.arrive
GEMM_DEVICE void mbarrier_arrive(uint64_t* barrier GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region arrive]
  GEMM_SM90_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                : "memory");
  // [/region arrive]
#else
  sim::runtime::mbarrier_arrive(barrier, 0 GEMM_CALLER_PASS);
#endif
}

// mbarrier.arrive.expect_tx: announces `bytes` bytes, then arrives.
GEMM_DEVICE void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region expect_tx]
  GEMM_SM90_ASM(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
  // [/region expect_tx]
#else
  sim::runtime::mbarrier_arrive(barrier, bytes GEMM_CALLER_PASS);
#endif
}

// mapa and mbarrier.arrive: at the barrier at the same place in block `rank` of the cluster. It
// frees a buffer for that block's TMA; data written through map_shared is handed over by
// cluster_arrive and cluster_wait instead.
GEMM_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region arrive_remote]
  GEMM_SM90_ASM(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
  // [/region arrive_remote]
#else
  sim::runtime::mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS);
#endif
}

// mbarrier.try_wait.parity: whether the phase of this parity has completed; waits for a while
// first. (A fresh barrier counts as having completed a phase of parity 1.)
GEMM_DEVICE bool mbarrier_try_wait(uint64_t* barrier, uint32_t parity GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  uint32_t done = 0;
  // [region try_wait]
  GEMM_SM90_ASM(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  // [/region try_wait]
  return done != 0;
#else
  sim::runtime::mbarrier_wait(barrier, parity GEMM_CALLER_PASS);
  return true;
#endif
}

// Returns when the phase of this parity has completed.
GEMM_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity GEMM_CALLER_ARG) {
  // [region wait]
  while (!mbarrier_try_wait(barrier, parity GEMM_CALLER_PASS)) {
  }
  // [/region wait]
}

GEMM_BUILD_NAMESPACE_END
