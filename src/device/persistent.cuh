// Persistent kernels: loops over tiles, and the choice of a CTA tile. Taught in v21.
#pragma once

#include <algorithm>
#include <cstdio>
#include <type_traits>

#include "device/scheduler.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// CTAs of a persistent kernel: one an SM. The simulator takes 4, so that small problems give each
// of them several tiles.
inline int persistent_blocks() { return GEMM_ON_GPU ? sm_count() : 4; }

// Calls work(m, n) for every `step`-th cluster tile from `first` on, in raster groups of at most
// GROUP_M rows of tiles. A cluster tile is CLUSTER tiles one above the other; (m, n) is that of CTA
// `rank` of the cluster, and may lie below C in the last one. If `work` takes a third argument, it
// is the number of cluster tiles from this one to the last.
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

// A CTA tile that a kernel is instantiated for, and its costs, measured on an H200.
// `cost`: time for one element of C, relative to the other tiles; larger tiles read less for each.
// `extra_waves`: what stream-K costs beside FIXUP_K / K; 0 for tiles without stream-K.
struct TileShape {
  int bm, bn;
  double cost;
  double extra_waves = 0;
};
constexpr TileShape DATA_PARALLEL_TILES[] = {{128, 192, 1.0}, {128, 128, 1.01}, {64, 128, 1.15}};
constexpr TileShape STREAM_K_TILES[] = {{128, 192, 1.0, 0.1}, {128, 128, 1.02, 0.2}};
constexpr double FIXUP_K = 400;  // the fixup of a tile takes as long as so many steps of K

struct TileChoice {
  Choice choice;
  double makespan;  // in elements of C that one SM computes in tiles of cost 1
};

// The tile with the least makespan on `sms` SMs. A partly filled wave takes as long as a full one
// unless stream-K cuts it, and a tile over C's edge as long as a whole one. Taught in v24.
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
