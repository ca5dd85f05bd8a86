// Kernels whose blocks live as long as the kernel and take tile after tile. Taught in v21.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/scheduler.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Blocks that run at the same time, one an SM. In the simulator few, so that small problems give
// each of them several tiles.
inline int persistent_blocks() { return GEMM_ON_GPU ? sm_count() : 4; }

// Calls work(m, n) for every `step`-th tile from `first` on, in even groups of at most GROUP_M
// rows of tiles; or work(m, n, left), if so many are left from this one on. Where STACK tiles, one
// above the other, are a cluster's, these are stacks, and the work is on the tile of `rank` in
// each; the last one may lie below C.
template <int GROUP_M, int CLUSTER, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int rank, int tiles_m, int tiles_n,
                               Work&& work) {
  const int rows = cdiv(tiles_m, CLUSTER), group = raster_group_size(rows, GROUP_M / CLUSTER);
  const int64_t cluster_tiles = int64_t{rows} * tiles_n;
  for (int64_t cluster_tile = first; cluster_tile < cluster_tiles; cluster_tile += step) {
    const auto [row, n] = grouped_tile(cluster_tile, rows, tiles_n, group);
    if constexpr (std::is_invocable_v<Work, int, int>)
      work(row * CLUSTER + rank, n);
    else
      work(row * CLUSTER + rank, n, cluster_tiles - cluster_tile);
  }
}
template <int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  for_each_tile<GROUP_M, 1>(first, step, 0, tiles_m, tiles_n, work);
}

// A tile that a kernel can be instantiated for; how much time a result takes in it, compared with
// others: larger ones read less for each; and how many waves it costs, beside FIXUP_K / K, to
// share out tiles that fill no wave (stream-K), 0 where that is not done. Measured on an
// H200.
struct TileShape {
  int bm, bn;
  double cost;
  double extra_waves = 0;
};
constexpr TileShape DATA_PARALLEL_TILES[] = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.15}};
constexpr TileShape STREAM_K_TILES[] = {{128, 192, 1.0, 0.1}, {128, 128, 1.02, 0.2}};
constexpr double FIXUP_K = 400;  // of sums to another block takes as long as so much of K

struct TileChoice {
  Choice choice;
  double makespan;  // in results that an SM computes in tiles of cost 1
};

// Which of them ends first on `sms` SMs, for M x N results of K products each: all waves but the
// last are full, and a tile that overlaps the edge takes as long as a whole one. Taught in v24.
template <size_t COUNT>
TileChoice choose_tile(int M, int N, int K, const TileShape (&shapes)[COUNT], int sms) {
  TileChoice best;
  for (size_t i = 0; i < COUNT; ++i) {
    const auto [bm, bn, cost, extra_waves] = shapes[i];
    const int64_t tiles = int64_t{cdiv(M, bm)} * cdiv(N, bn);
    const bool cut = extra_waves > 0 && tiles > sms && tiles % sms != 0;
    const double waves = cut ? double(tiles) / sms : double((tiles + sms - 1) / sms);
    const double shared = cut ? extra_waves + FIXUP_K / std::max(K, 1) : 0;
    const double makespan = cost * (waves + shared) * bm * bn;
    if (i > 0 && makespan >= best.makespan) continue;
    char why[80];
    std::snprintf(why, sizeof why, "%lld tiles of %d x %d in %.*f waves",
                  static_cast<long long>(tiles), bm, bn, cut ? 1 : 0, waves);
    best = {{static_cast<int>(i), why}, makespan};
  }
  return best;
}

GEMM_BUILD_NAMESPACE_END
