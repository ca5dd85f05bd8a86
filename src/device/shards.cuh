// Tiles of a product whose rows are sharded over ranks, shard after shard. Taught in m3.
#pragma once

#include "device/persistent.cuh"
#include "device/ptx/tma.cuh"
#include "sharded/sharded.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A tensor map for each rank's shard: a kernel's parameter, `const __grid_constant__ ShardMaps`.
struct ShardMaps {
  TensorMap of[MOST_RANKS];
};

// Calls work(shard, m, n) for every `step`-th tile from `first` on: all tiles of shard `begin`, then
// of the next one, and so on around. (m, n) counts tiles of BM rows within the shard. All fit in an
// int.
template <int BM, int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile_of_shards(const Shards& shards, int begin, int first, int step,
                                         int tiles_n, Work&& work) {
  int tile = first;  // counted from the shard's first
  for (int i = 0; i < shards.ranks; ++i) {
    const int shard = (begin + i) % shards.ranks, rows = cdiv(shards.rows(shard), BM);
    if (rows == 0) continue;
    const int group = raster_group_size(rows, GROUP_M);
    for (; tile < rows * tiles_n; tile += step) {
      const auto [m, n] = grouped_tile(tile, rows, tiles_n, group);
      work(shard, m, n);
    }
    tile -= rows * tiles_n;
  }
}

// How many tiles there are.
constexpr int64_t tiles_of_shards(const Shards& shards, int N, int bm, int bn) {
  int64_t rows = 0;
  for (int rank = 0; rank < shards.ranks; ++rank) rows += cdiv(shards.rows(rank), bm);
  return rows * cdiv(N, bn);
}

GEMM_BUILD_NAMESPACE_END
