// Tiles that the blocks of a cluster load for each other. Taught in v22.
#pragma once

#include "device/tma.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether TMA takes A or B as it is though its rows are no whole lines of 128 bytes: 64 elements of
// a row then lie in two lines, and L2 is asked twice for each.
template <class T>
bool splits_lines(const GemmArgs<T>& p) {
  const auto splits = [](const T* base, int64_t ld) {
    return tma_can_address(base, ld) &&
           (reinterpret_cast<uintptr_t>(base) % 128 != 0 || ld * sizeof(T) % 128 != 0);
  };
  return splits(p.A, p.lda) || splits(p.B, p.ldb);
}

// Part `part` of PARTS of the tile at (mn, k), to all blocks of the cluster, which do the same with
// the other parts: by one thread of each. Each block's `full` is told of what comes there.
template <class Tile, int PARTS>
GEMM_DEVICE void load_part(uint8_t* tile, const TensorMap& map, int mn, int k, uint64_t* full,
                           int part GEMM_CALLER_ARG) {
  constexpr uint16_t ALL = (1 << PARTS) - 1;
  if constexpr (PARTS == 1) {
    Tile::load(tile, map, mn, k, full GEMM_CALLER_PASS);
  } else if constexpr (Tile::PANELS == 1) {  // rows of the panel
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

// A barrier of all threads of the cluster, or of the block where it is alone.
template <int CLUSTER>
GEMM_DEVICE void sync_cluster(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  if constexpr (CLUSTER == 1) return __syncthreads();
  cluster_arrive();
  cluster_wait();
#else
  if constexpr (CLUSTER == 1) return __syncthreads(where);
  cluster_arrive(where);
  cluster_wait(where);
#endif
}

// By a warpgroup: tells the barrier at the same place in every block of the cluster.
template <int CLUSTER>
GEMM_DEVICE void arrive_at_all(uint64_t* barrier GEMM_CALLER_ARG) {
  const int rank = threadIdx.x % 128;
  if constexpr (CLUSTER == 1) {
    if (rank == 0) mbarrier_arrive(barrier GEMM_CALLER_PASS);
  } else {
    if (rank < CLUSTER) mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS);
  }
}

GEMM_BUILD_NAMESPACE_END
