// TMA multicast: k-tiles of B that the CTAs of a cluster load for each other. Taught in v22.
#pragma once

#include "device/launch.h"
#include "device/persistent.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/tma.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Loads part `part` of PARTS of the tile at (mn, k) into all CTAs of the cluster, by one thread.
// The other CTAs load the other parts. The bytes arrive at each CTA's own `full`.
template <class Tile, int PARTS, class Map>
GEMM_DEVICE void load_part(uint8_t* tile, const Map& map, int mn, int k, uint64_t* full,
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
      uint8_t* const to = tile + i * Tile::PANEL_BYTES + row * Tile::ROW_BYTES;
      const int mn_i = mn + i * Tile::WIDTH;
      tma_load_multicast(to, map, Tile::ALONG_K ? mn + row : k + row, Tile::ALONG_K ? k : mn_i,
                         full, ALL GEMM_CALLER_PASS);
    }
  }
}

// Loads a part of the tile at (mn, k) into those CTAs of the cluster whose bits are set, by one
// thread: from `row` on, the map's box, of each of the first `panels` panels. Others load the other
// parts. The bytes arrive at each CTA's own `full`. `alone`: only into this CTA.
template <class Tile>
GEMM_DEVICE void load_part_for(uint8_t* tile, const TensorMap& map, int mn, int k, uint64_t* full,
                               uint32_t ctas, int row, bool alone,
                               int panels = Tile::PANELS GEMM_CALLER_ARG) {
#pragma unroll
  for (int i = 0; i < Tile::PANELS; ++i)
    if (i < panels) {
      uint8_t* const to = tile + i * Tile::PANEL_BYTES + row * Tile::ROW_BYTES;
      const int from_row = row + (Tile::ALONG_K ? mn : k);
      const int from_col = Tile::ALONG_K ? k : mn + i * Tile::WIDTH;
      if (alone)
        tma_load(to, map, from_row, from_col, full GEMM_CALLER_PASS);
      else
        tma_load_multicast(to, map, from_row, from_col, full,
                           static_cast<uint16_t>(ctas) GEMM_CALLER_PASS);
    }
}

// `produce` for a cluster whose CTAs have the same columns: each loads part `rank` of B's k-tiles
// for all, and its own rows of A.
template <class TileA, class TileB, int CLUSTER, int STAGES, class MapA, class MapB>
GEMM_DEVICE void produce_shared(uint8_t* sA, uint8_t* sB, uint64_t* full, uint64_t* empty,
                                PipelineState<STAGES>& state, const MapA& map_a, const MapB& map_b,
                                int m, int n, int k_tiles, int rank GEMM_CALLER_ARG) {
  const auto load = [&](int s, int k_tile) {
    const int k = k_tile * TileA::DEPTH;
    load_part<TileB, CLUSTER>(sB + s * TileB::BYTES, map_b, n, k, &full[s], rank GEMM_CALLER_PASS);
    TileA::load(sA + s * TileA::BYTES, map_a, m, k, &full[s] GEMM_CALLER_PASS);
  };
  constexpr int BYTES = TileA::BYTES + TileB::BYTES;
  load_k_tiles(full, empty, state, 0, k_tiles, BYTES, load GEMM_CALLER_PASS);
}

// Arrives at `barrier` in every CTA of the cluster: one lane of the warpgroup for each.
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
