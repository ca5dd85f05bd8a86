// Tiles that the blocks of a cluster load for each other. Taught in v22.
#pragma once

#include "device/ptx.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Part `part` of PARTS of the tile at (mn, k), to all blocks of the cluster, which do the same with
// the other parts: by one thread of each. Each block's `full` is told of what comes there.
template <class Tile, int PARTS>
GEMM_DEVICE void load_part(uint8_t* tile, const TensorMap& map, int mn, int k, uint64_t* full,
                           int part GEMM_CALLER_ARG) {
  constexpr uint16_t ALL = (1 << PARTS) - 1;
  if constexpr (Tile::PANELS == 1) {  // rows of the panel
    const int row = part * (Tile::EXTENT / PARTS);
    tma_load_multicast(tile + row * 128, map, mn + row, k, full, ALL GEMM_CALLER_PASS);
  } else {  // panels
    static_assert(Tile::PANELS % PARTS == 0, "a part is whole panels");
#pragma unroll
    for (int i = 0; i < Tile::PANELS / PARTS; ++i) {
      const int panel = part * (Tile::PANELS / PARTS) + i;
      tma_load_multicast(tile + panel * Tile::PANEL_BYTES, map, k, mn + panel * Tile::WIDTH, full,
                         ALL GEMM_CALLER_PASS);
    }
  }
}

// By a warpgroup: tells the barrier at the same place in every block of the cluster.
template <int CLUSTER>
GEMM_DEVICE void arrive_at_all(uint64_t* barrier GEMM_CALLER_ARG) {
  const int rank = threadIdx.x % 128;
  if (rank < CLUSTER) mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS);
}

GEMM_BUILD_NAMESPACE_END
