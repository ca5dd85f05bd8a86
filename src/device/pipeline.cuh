// A ring of STAGES buffers between a producer and consumers. Taught in v19.
//
//   barrier        counts                                who waits          for what
//   full[stage]    the producer's arrival, TMA's bytes   each consumer      the slice has come
//   empty[stage]   one arrival a consumer warpgroup      the producer       all have read it
#pragma once

#include "device/ptx.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Where one side is in the ring, and the parity that full[stage] has when its turn comes. A fresh
// barrier counts as having completed a phase of parity 1, so that the producer, waiting on empty[]
// for parity phase ^ 1, passes at once in its first round.
template <int STAGES>
struct Slot {
  int stage = 0;
  uint32_t phase = 0;
  GEMM_DEVICE void advance() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// By one thread, before a barrier of all.
template <int STAGES>
GEMM_DEVICE void init_ring(uint64_t* full, uint64_t* empty, int consumers GEMM_CALLER_ARG) {
  for (int s = 0; s < STAGES; ++s) {
    mbarrier_init(&full[s], 1 GEMM_CALLER_PASS);
    mbarrier_init(&empty[s], consumers GEMM_CALLER_PASS);
  }
  fence_mbarrier_init();
}

GEMM_BUILD_NAMESPACE_END
