// Stream-K: tiles that do not fill a wave are cut along K, so that all SMs end together. (Osama et
// al., "Stream-K: Work-centric parallel decomposition for GEMM", 2023.)
//
// A rung's Loop gives it
//   Loop::Tile   BM, BN, BK (floats), SUMS (vectors a thread), THREADS, K_GROUPS (1), BLOCKS an SM,
//                SMEM (bytes)
//   Loop::place  which CTA tile of C is the n-th
//   Loop::sum    the products of CTA tile (bm, bn) for k_begin <= k < k_end: every thread's sums
//                to memory, by put_sums<THREADS>
//   Loop::store<CLUSTER>  those in shared memory to C, of the CLUSTER blocks that have a tile
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/ffma_tile.cuh"
#include "device/ptx/grid.cuh"
#include "device/scheduler.cuh"
#include "device/vec.cuh"
#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Stream-K's share of the work: the tiles from `first` on, fewer than SMs, which fill no wave. Each
// has a CTA of its own, which computes and stores it but for its first `helped` k-tiles. Those of
// all tiles form one row, which is cut into equal shares for `helpers` other CTAs, on the SMs
// without a tile.
struct StreamK {
  int first, tiles, k_tiles, helped, helpers;
  // Where helper h's share begins: index of the tile * helped + k-tile.
  __host__ __device__ int64_t begin(int h) const { return h * (int64_t{tiles} * helped) / helpers; }
  // Every SM gets as many k-tiles, and the tiles' own blocks EXTRA more: a helper begins more
  // tiles, and must have ended when they add up. Where the two do not run at once (below sm_90;
  // and, as measured, not understood, where no kernel before them has filled the SMs), all SMs help
  // first, and a tile's own block has one k-tile.
  static constexpr int EXTRA = 2;
  static StreamK of(int64_t tiles, int k_tiles, int sms) {
    const int rest = int(tiles % sms);
    const bool at_once = has_clusters() && tiles > sms;
    const int own = at_once ? int((int64_t{rest} * k_tiles + sms / 2) / sms) + EXTRA : 1;
    if (rest == 0 || own >= k_tiles) return {int(tiles), 0, k_tiles, 0, 0};
    const int64_t work = int64_t{rest} * (k_tiles - own), idle = at_once ? sms - rest : sms;
    return {int(tiles - rest), rest, k_tiles, k_tiles - own, int(work < idle ? work : idle)};
  }
};

GEMM_DEVICE Vec<float> add(Vec<float> a, const Vec<float>& b) {
#pragma unroll
  for (int e = 0; e < 4; ++e) a.set(e, a[e] + b[e]);
  return a;
}

// A helper, whose sums of the n-th tile are part h + n (with h or n it always grows), or if OWN the
// n-th tile's own block: its other k-tiles, then the helpers' parts, always in the same order.
template <class Loop, bool OWN>
__global__ void __launch_bounds__(Loop::Tile::THREADS, Loop::Tile::BLOCKS)
    stream_k(GemmArgs<float> p, bool aligned_c, StreamK work, Vec<float>* parts) {
  using Tile = typename Loop::Tile;
  constexpr int PART = Tile::SUMS * Tile::THREADS;  // vectors
  grid_launch_dependents();
  Vec<float>* const sums = static_cast<Vec<float>*>(dynamic_shared());
  const int k_tiles = OWN ? work.k_tiles : work.helped;  // a tile
  const int64_t end = OWN ? (blockIdx.x + 1) * int64_t{k_tiles} : work.begin(blockIdx.x + 1);
  TileIndex where{};
#pragma unroll 1
  for (int64_t at = OWN ? end - k_tiles + work.helped : work.begin(blockIdx.x); at < end;) {
    const int nth = int(at / k_tiles), k_tile = int(at % k_tiles);
    const int64_t rest = end - at;
    const int to = rest < k_tiles - k_tile ? k_tile + int(rest) : k_tiles;
    where = Loop::place(p, work.first + nth);
    Loop::sum(p, where.m, where.n, k_tile * Tile::BK, to < work.k_tiles ? to * Tile::BK : p.K,
              OWN ? sums : parts + (int64_t{blockIdx.x} + nth) * PART);
    at += to - k_tile;
  }
  grid_dependency_wait();  // for the parts, or to end after the kernel before
  if constexpr (OWN) {
    const int64_t begin = int64_t{blockIdx.x} * work.helped;
    int h = int(begin * work.helpers / (int64_t{work.tiles} * work.helped));
    while (work.begin(h + 1) <= begin) ++h;
#pragma unroll 1
    for (; h < work.helpers && work.begin(h) < begin + work.helped; ++h) {
      const Vec<float>* const part = parts + (int64_t{h} + blockIdx.x) * PART;
#pragma unroll 16
      for (int v = threadIdx.x; v < PART; v += Tile::THREADS) sums[v] = add(sums[v], part[v]);
    }
    Loop::template store<1>(p, aligned_c, where.m, where.n, 0, sums);
  }
}

// The last tiles of C, those that fill no wave, by two kernels that run at once. Unless `first`,
// they begin as soon as the kernel before has SMs to spare, and end after it.
template <class Loop>
void launch_stream_k(const GemmArgs<float>& p, bool aligned_c, const StreamK& work, Stream stream,
                     bool first) {
  using Tile = typename Loop::Tile;
  static_assert(Tile::K_GROUPS == 1, "a part is one group's sums");
  const Workspace parts(size_t(work.helpers + work.tiles) * Tile::BM * Tile::BN * sizeof(float),
                        stream);
  launch(stream_k<Loop, false>, work.helpers, dim3(Tile::THREADS),
         {.smem = Tile::SMEM, .pdl = !first && has_clusters()}, stream, p, aligned_c, work,
         parts.as<Vec<float>>());
  launch(stream_k<Loop, true>, work.tiles, dim3(Tile::THREADS),
         {.smem = Tile::SMEM, .pdl = has_clusters()}, stream, p, aligned_c, work,
         parts.as<Vec<float>>());
}

GEMM_BUILD_NAMESPACE_END
