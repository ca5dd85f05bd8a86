// Ping-pong: two consumers run their main loops by turns, each on tiles of its own. Taught in v24.
#pragma once

#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/wgmma_main_loop.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A consumer's sums of one tile. It waits for its ordered barrier, tells the `other` one when its
// last k-tile has been issued, and skips the k-tiles of that one's tile. `parity`: of order[wg].
// Stages are released to all CTAs of the cluster.
template <class TileA, class TileB, int CLUSTER = 1, class Shared, class State, int BLOCKS,
          int COUNT>
GEMM_DEVICE void multiply_in_turn(Shared& s, State& state, int wg, uint32_t& parity,
                                  uint64_t* other, int k_tiles,
                                  float (&acc)[BLOCKS][COUNT] GEMM_CALLER_ARG) {
  clear_registers(acc);  // before the wait, while the other consumer computes
  if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity GEMM_CALLER_PASS);
  parity ^= 1;
  const auto multiply = [&](int stage, int k_tile) {
    multiply_k_tile<TileA, TileB>(acc, s.A[stage], s.B[stage], 0 GEMM_CALLER_PASS);
    if (k_tile == k_tiles - 1 && threadIdx.x % 32 == 0) mbarrier_arrive(other GEMM_CALLER_PASS);
  };
  const int last =
      multiply_k_tiles<CLUSTER>(s.full, s.empty, state, k_tiles, multiply GEMM_CALLER_PASS);
  finish_k_tiles<CLUSTER>(s.empty, k_tiles, last GEMM_CALLER_PASS);
  state.skip(k_tiles);
}

GEMM_BUILD_NAMESPACE_END
