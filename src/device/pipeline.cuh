// A ring of STAGES buffers between a producer and consumers. Taught in v19.
//
//   barrier        counts                                who waits          for what
//   full[stage]    the producer's arrival, TMA's bytes   each consumer      the slice has come
//   empty[stage]   one arrival a consumer warpgroup      the producer       all have read it
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Where one side is in the ring, and the parity that full[stage] has when its turn comes. A fresh
// barrier counts as having completed a phase of parity 1, so that the producer, waiting on empty[]
// for parity phase ^ 1, passes at once in its first round.
template <int STAGES>
struct Slot {
  int stage = 0;
  uint32_t phase = 0;
  GEMM_DEVICE void advance() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Past `count` slices that another consumer reads.
  GEMM_DEVICE void skip(int count) {
    stage += count;
    phase ^= stage / STAGES & 1;
    stage %= STAGES;
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

// Two consumers' turns: a thread of each of the other's four warps tells turn[consumer]. Before
// init_ring, by the same thread: SYNCS takes addresses from uniform registers, so a thread for each
// of the two is a loop over lanes, and cost 1 % at 512 and 1024.
GEMM_DEVICE void init_turns(uint64_t* turn GEMM_CALLER_ARG) {
  for (int consumer = 0; consumer < 2; ++consumer)
    mbarrier_init(&turn[consumer], 4 GEMM_CALLER_PASS);
}

// The producer's work on one tile of C, by one thread: slices `begin` to `end`, each of `bytes`
// bytes, which load(stage, slice) brings to full[stage].
template <int STAGES, class Load>
GEMM_DEVICE void load_slices(uint64_t* full, uint64_t* empty, Slot<STAGES>& slot, int begin,
                             int end, int bytes, Load&& load GEMM_CALLER_ARG) {
  for (int slice = begin; slice < end; ++slice, slot.advance()) {
    mbarrier_wait(&empty[slot.stage], slot.phase ^ 1 GEMM_CALLER_PASS);
    mbarrier_arrive_expect_tx(&full[slot.stage], bytes GEMM_CALLER_PASS);
    load(slot.stage, slice);
  }
}

// The same, at row m and column n: of A and B into the buffers at sA and sB. `bytes` of a slice,
// where the maps' boxes are smaller than the tiles. From the last slice to the first, if `back`.
template <class TileA, class TileB, int STAGES>
GEMM_DEVICE void produce(uint8_t* sA, uint8_t* sB, uint64_t* full, uint64_t* empty,
                         Slot<STAGES>& slot, const TensorMap& map_a, const TensorMap& map_b, int m,
                         int n, int begin, int end, int bytes = TileA::BYTES + TileB::BYTES,
                         bool back = false GEMM_CALLER_ARG) {
  const auto load = [&](int s, int slice) {
    const int k = (back ? begin + end - 1 - slice : slice) * TileA::DEPTH;
    TileA::load(sA + s * TileA::BYTES, map_a, m, k, &full[s] GEMM_CALLER_PASS);
    TileB::load(sB + s * TileB::BYTES, map_b, n, k, &full[s] GEMM_CALLER_PASS);
  };
  load_slices(full, empty, slot, begin, end, bytes, load GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
