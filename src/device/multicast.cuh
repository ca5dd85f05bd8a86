// Tiles that the blocks of a cluster load for each other. Taught in v22.
#pragma once

#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/tma.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether TMA takes A or B as it is though its rows are no whole lines of 128 bytes: 64 elements of
// a row then lie in two lines, and L2 is asked twice for each.
template <class T>
bool straddles_lines(const GemmArgs<T>& p) {
  const auto straddles = [](const T* base, int64_t ld) {
    return tma_can_address(base, ld) &&
           (reinterpret_cast<uintptr_t>(base) % 128 != 0 || ld * sizeof(T) % 128 != 0);
  };
  return straddles(p.A, p.lda) || straddles(p.B, p.ldb);
}

// Part `part` of PARTS of the tile at (mn, k), to all blocks of the cluster, which do the same with
// the other parts: by one thread of each. Each block's `full` is told of what comes there.
template <class Tile, int PARTS>
GEMM_DEVICE void load_part(uint8_t* tile, const TensorMap& map, int mn, int k, uint64_t* full,
                           int part GEMM_CALLER_ARG) {
  constexpr uint16_t ALL = (1 << PARTS) - 1;
  if constexpr (PARTS == 1) {
    Tile::load(tile, map, mn, k, full GEMM_CALLER_PASS);
  } else {
    constexpr int ROWS = Tile::template ROWS<PARTS>;
    constexpr bool WHOLE = ROWS == Tile::template ROWS<1>;  // panels; or else some rows of each
    constexpr int PANELS = WHOLE ? Tile::PANELS / PARTS : Tile::PANELS;
    const int first = WHOLE ? part * PANELS : 0, row = WHOLE ? 0 : part * ROWS;
#pragma unroll
    for (int i = first; i < first + PANELS; ++i) {
      uint8_t* const to = tile + i * Tile::PANEL_BYTES + row * (2 * Tile::WIDTH);
      const int mn_i = mn + i * Tile::WIDTH;
      tma_load_multicast(to, map, Tile::ALONG_K ? mn + row : k + row, Tile::ALONG_K ? k : mn_i,
                         full, ALL GEMM_CALLER_PASS);
    }
  }
}

// produce, where the blocks of a cluster have the same columns: each loads part `rank` of B's
// k-tiles, for all, and its rows of A. In the other order a kernel of 256 columns spills registers.
// From the last k-tile to the first, if `back`.
template <class TileA, class TileB, int CLUSTER, int STAGES>
GEMM_DEVICE void produce_shared(uint8_t* sA, uint8_t* sB, uint64_t* full, uint64_t* empty,
                                PipelineState<STAGES>& state, const TensorMap& map_a,
                                const TensorMap& map_b, int m, int n, int k_tiles, int rank,
                                int bytes = TileA::BYTES + TileB::BYTES,
                                bool back = false GEMM_CALLER_ARG) {
  const auto load = [&](int s, int k_tile) {
    const int k = (back ? k_tiles - 1 - k_tile : k_tile) * TileA::DEPTH;
    load_part<TileB, CLUSTER>(sB + s * TileB::BYTES, map_b, n, k, &full[s], rank GEMM_CALLER_PASS);
    TileA::load(sA + s * TileA::BYTES, map_a, m, k, &full[s] GEMM_CALLER_PASS);
  };
  load_k_tiles(full, empty, state, 0, k_tiles, bytes, load GEMM_CALLER_PASS);
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

// The tile for whole waves: one of DATA_PARALLEL_TILES; or, numbered behind those, one of stacks of
// two, for clusters, where rows are no whole lines. Costs as measured on an H200 at 1000 to 5000.
// Taught in v24.
template <class T>
TileChoice choose_data_parallel_tile(const GemmArgs<T>& p, int sms) {
  constexpr TileShape CLUSTER_TILES[] = {{256, 192, 1.4}, {256, 128, 1.7}, {128, 128, 2.2}};
  if (p.M <= 128 || !straddles_lines(p))
    return choose_tile(p.M, p.N, p.K, DATA_PARALLEL_TILES, sms);
  TileChoice clusters = choose_tile(p.M, p.N, p.K, CLUSTER_TILES, sms / 2);
  clusters.choice.variant += std::size(DATA_PARALLEL_TILES);
  clusters.choice.why += " of clusters";
  clusters.makespan /= 2;  // one SM's
  return clusters;
}

GEMM_BUILD_NAMESPACE_END
