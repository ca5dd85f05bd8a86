// A pipeline of STAGES buffers between a producer and consumers. Taught in v19.
//
//   barrier        counts                                who waits          for what
//   full[stage]    the producer's arrival, TMA's bytes   each consumer      the k-tile has come
//   empty[stage]   one arrival a consumer warpgroup      the producer       all have read it
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Where one side is in the pipeline, and the parity that full[stage] has when its turn comes. A
// fresh barrier counts as having completed a phase of parity 1, so that the producer, waiting on
// empty[] for parity phase ^ 1, passes at once in its first round.
template <int STAGES>
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;
  GEMM_DEVICE void advance() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Past `count` k-tiles that another consumer reads.
  GEMM_DEVICE void skip(int count) {
    stage += count;
    phase ^= stage / STAGES & 1;
    stage %= STAGES;
  }
};

// By one thread, before a barrier of all.
template <int STAGES>
GEMM_DEVICE void init_pipeline(uint64_t* full, uint64_t* empty, int consumers GEMM_CALLER_ARG) {
  for (int s = 0; s < STAGES; ++s) {
    mbarrier_init(&full[s], 1 GEMM_CALLER_PASS);
    mbarrier_init(&empty[s], consumers GEMM_CALLER_PASS);
  }
  fence_mbarrier_init();
}

// Two consumers' turns: a thread of each of the other's four warps tells order[consumer]. Before
// init_pipeline, by the same thread: SYNCS takes addresses from uniform registers, so a thread for
// each of the two is a loop over lanes, and cost 1 % at 512 and 1024.
GEMM_DEVICE void init_ordered_barrier(uint64_t* order GEMM_CALLER_ARG) {
  for (int consumer = 0; consumer < 2; ++consumer)
    mbarrier_init(&order[consumer], 4 GEMM_CALLER_PASS);
}

// The producer's work on one tile of C, by one thread: k-tiles `begin` to `end`, each of `bytes`
// bytes, which load(stage, k-tile) brings to full[stage].
template <int STAGES, class Load>
GEMM_DEVICE void load_k_tiles(uint64_t* full, uint64_t* empty, PipelineState<STAGES>& state,
                              int begin, int end, int bytes, Load&& load GEMM_CALLER_ARG) {
  for (int k_tile = begin; k_tile < end; ++k_tile, state.advance()) {
    mbarrier_wait(&empty[state.stage], state.phase ^ 1 GEMM_CALLER_PASS);
    mbarrier_arrive_expect_tx(&full[state.stage], bytes GEMM_CALLER_PASS);
    load(state.stage, k_tile);
  }
}

// The same, at row m and column n: of A and B into the buffers at sA and sB. `bytes` of a k-tile,
// where the maps' boxes are smaller than the tiles. From the last k-tile to the first, if `back`.
template <class TileA, class TileB, int STAGES>
GEMM_DEVICE void produce(uint8_t* sA, uint8_t* sB, uint64_t* full, uint64_t* empty,
                         PipelineState<STAGES>& state, const TensorMap& map_a,
                         const TensorMap& map_b, int m, int n, int begin, int end,
                         int bytes = TileA::BYTES + TileB::BYTES,
                         bool back = false GEMM_CALLER_ARG) {
  const auto load = [&](int s, int k_tile) {
    const int k = (back ? begin + end - 1 - k_tile : k_tile) * TileA::DEPTH;
    TileA::load(sA + s * TileA::BYTES, map_a, m, k, &full[s] GEMM_CALLER_PASS);
    TileB::load(sB + s * TileB::BYTES, map_b, n, k, &full[s] GEMM_CALLER_PASS);
  };
  load_k_tiles(full, empty, state, begin, end, bytes, load GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
