// Kernels whose blocks live as long as the kernel and take tile after tile. Taught in v21.
#pragma once

#include <string>

#include "device/scheduler.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Blocks that run at the same time, one an SM. In the simulator few, so that small problems give
// each of them several tiles.
inline int persistent_blocks() { return GEMM_ON_GPU ? sm_count() : 4; }

// Calls work(m, n) for every `step`-th tile from `first` on.
template <int GROUP_M, class Work>
GEMM_DEVICE void for_each_tile(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  for (int64_t tile = first; tile < int64_t{tiles_m} * tiles_n; tile += step) {
    const auto [m, n] = grouped_tile<GROUP_M>(tile, tiles_m, tiles_n);
    work(m, n);
  }
}

// A tile that a kernel can be instantiated for. Where the matrix ends within the first `edge_m` rows
// of a tile, it takes edge_m / bm of the time. `cost`: how much time a result takes, compared with
// others: larger tiles read less for each.
struct TileShape {
  int bm, bn, edge_m;
  double cost;
};

// Which of them ends first on `sms` SMs: all rounds but the last are full, and the tiles at the
// lower edge come last. Taught in v24.
template <size_t COUNT>
Choice choose_tile(int M, int N, const TileShape (&shapes)[COUNT], int sms) {
  Choice best;
  double least = 0;
  for (size_t i = 0; i < COUNT; ++i) {
    const auto [bm, bn, edge_m, cost] = shapes[i];
    const int64_t row = cdiv(N, bn), tiles = cdiv(M, bm) * row;
    const int64_t edge = M % bm > 0 && M % bm <= edge_m ? row : 0;  // tiles at the lower edge
    const int64_t rounds = (tiles - edge + sms - 1) / sms, places = rounds * sms - (tiles - edge);
    const int64_t more =
        edge > places ? (edge - places + sms - 1) / sms : 0;  // rounds of them only
    const double time = cost * bn * double(rounds * bm + more * edge_m);
    if (i > 0 && time >= least) continue;
    least = time;
    best = {static_cast<int>(i), std::to_string(tiles) + " tiles of " + std::to_string(bm) + " x " +
                                     std::to_string(bn) + " in " + std::to_string(rounds + more) +
                                     " rounds"};
  }
  return best;
}

GEMM_BUILD_NAMESPACE_END
