// The main loop of a wgmma consumer: k-tiles from the pipeline, multiplied and released.
#pragma once

#include "device/multicast.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/wgmma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A consumer's loop over the k-tiles of one tile. multiply(stage, k_tile) issues a k-tile's wgmma. A
// stage is released to all CTAs of the cluster when at most the next k-tile's wgmma are in flight.
// Returns the last stage, which finish_k_tiles releases. Taught in v22.
template <int CLUSTER, class State, class Multiply>
GEMM_DEVICE int multiply_k_tiles(uint64_t* full, uint64_t* empty, State& state, int k_tiles,
                                 Multiply&& multiply GEMM_CALLER_ARG) {
  int last = 0;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
    mbarrier_wait(&full[state.stage], state.phase GEMM_CALLER_PASS);
    multiply(state.stage, k_tile);
    wgmma_wait<1>();
    if (k_tile > 0) arrive_at_all<CLUSTER>(&empty[last] GEMM_CALLER_PASS);
  }
  return last;
}
// Waits for the wgmma of a tile's last k-tile, and releases its stage.
template <int CLUSTER>
GEMM_DEVICE void finish_k_tiles(uint64_t* empty, int k_tiles, int last GEMM_CALLER_ARG) {
  wgmma_wait<0>();
  if (k_tiles > 0) arrive_at_all<CLUSTER>(&empty[last] GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
