// The pipeline of STAGES shared-memory buffers between a producer and consumers. Taught in v19.
//
//   barrier        completes after                           waited for by    and then
//   full[stage]    the producer's arrival and TMA's bytes    each consumer    the k-tile is there
//   empty[stage]   one arrival of each consumer warpgroup    the producer     all have read it
#pragma once

#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// One side's position in the pipeline: its stage, and the phase's parity. Consumers wait on full[]
// for `phase`, the producer on empty[] for phase ^ 1. A fresh barrier counts as having completed a
// phase of parity 1, so the producer does not wait for the first STAGES k-tiles.
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
  // Moves on by `count` k-tiles, which another consumer reads.
  GEMM_DEVICE void skip(int count) {
    stage += count;
    phase ^= stage / STAGES & 1;
    stage %= STAGES;
  }
};

// A position in a pipeline whose stages the host counts.
struct CountedPipelineState {
  int stages, stage = 0;
  uint32_t phase = 0;
  GEMM_DEVICE void advance() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// A position in a pipeline of STAGES stages, or in as many of them as a tile has k-tiles.
template <int STAGES>
struct PartPipelineState : CountedPipelineState {
  // Moves on by the k-tiles of a tile: of fewer than STAGES stages, by one lap at most. A division by
  // `stages` cost 4 % where K is 128.
  GEMM_DEVICE void skip(int count) {
    stage += count;
    const int laps = stages == STAGES ? stage / STAGES : stage >= stages;
    phase ^= laps & 1;
    stage -= laps * stages;
  }
};

// Initialises the barriers: by one thread, before a barrier of the CTA.
template <int STAGES>
GEMM_DEVICE void init_pipeline(uint64_t* full, uint64_t* empty, int consumers GEMM_CALLER_ARG) {
  for (int s = 0; s < STAGES; ++s) {
    mbarrier_init(&full[s], 1 GEMM_CALLER_PASS);
    mbarrier_init(&empty[s], consumers GEMM_CALLER_PASS);
  }
  fence_mbarrier_init();
}

// Initialises the ordered barrier of two consumers, which run their main loops by turns.
// order[c] completes after one arrival of each of the four warps of the other consumer: c may
// begin. Call it before init_pipeline, in the same thread. One thread for each of the two costs 1 %
// at 512 and 1024: mbarrier.init takes its address from a uniform register, so lanes become a loop.
GEMM_DEVICE void init_ordered_barrier(uint64_t* order GEMM_CALLER_ARG) {
  for (int consumer = 0; consumer < 2; ++consumer)
    mbarrier_init(&order[consumer], 4 GEMM_CALLER_PASS);
}

// The other consumer's ordered barrier, which consumer `wg` arrives at. The address is computed here:
// ptxas would compute it, and where shared memory begins, for every k-tile.
GEMM_DEVICE uint64_t* order_of_other(uint64_t* order, int wg) {
  uint64_t* other = &order[wg ^ 1];
#if GEMM_ON_GPU
  asm volatile("" : "+l"(other));
#endif
  return other;
}

// The producer's loop over k-tiles `begin` to `end` of one tile, by one thread. load(stage, k_tile)
// issues the loads, of `bytes` bytes in all, that arrive at full[stage].
template <class State, class Load>
GEMM_DEVICE void load_k_tiles(uint64_t* full, uint64_t* empty, State& state, int begin, int end,
                              int bytes, Load&& load GEMM_CALLER_ARG) {
  for (int k_tile = begin; k_tile < end; ++k_tile, state.advance()) {
    mbarrier_wait(&empty[state.stage], state.phase ^ 1 GEMM_CALLER_PASS);
    mbarrier_arrive_expect_tx(&full[state.stage], bytes GEMM_CALLER_PASS);
    load(state.stage, k_tile);
  }
}

// load_k_tiles for A at row m and B at column n, into the stages at sA and sB.
// `bytes`: those of a k-tile, where boxes are smaller than the tiles. `back`: last k-tile first.
template <class TileA, class TileB, int STAGES, class MapA, class MapB>
GEMM_DEVICE void produce(uint8_t* sA, uint8_t* sB, uint64_t* full, uint64_t* empty,
                         PipelineState<STAGES>& state, const MapA& map_a, const MapB& map_b, int m,
                         int n, int begin, int end, int bytes = TileA::BYTES + TileB::BYTES,
                         bool back = false GEMM_CALLER_ARG) {
  const auto load = [&](int s, int k_tile) {
    const int k = (back ? begin + end - 1 - k_tile : k_tile) * TileA::DEPTH;
    TileA::load(sA + s * TileA::BYTES, map_a, m, k, &full[s] GEMM_CALLER_PASS);
    TileB::load(sB + s * TileB::BYTES, map_b, n, k, &full[s] GEMM_CALLER_PASS);
  };
  load_k_tiles(full, empty, state, begin, end, bytes, load GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
