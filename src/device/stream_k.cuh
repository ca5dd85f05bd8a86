// Stream-K: tiles that do not fill a wave are cut along K, so that all SMs end together. (Osama et
// al., "Stream-K: Work-centric parallel decomposition for GEMM", 2023.)
//
// A rung's Loop gives it
//   Loop::Tile   BM, BN, BK (floats), SUMS (vectors a thread), THREADS, GROUPS (1), BLOCKS an SM,
//                SMEM (bytes)
//   Loop::place  which block tile of C is the n-th
//   Loop::sum    the products of block tile (bm, bn) for k_begin <= k < k_end: every thread's sums
//                to memory, by put_sums<THREADS>
//   Loop::store  block q of thread t's sums to C
#pragma once

#include "device/ptx.cuh"
#include "device/scheduler.cuh"
#include "device/vec.cuh"
#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A thread's sums in memory, vector by vector, STRIDE vectors apart. A vector is 2 x 2 sums, column
// by column, of either the odd row first. It wants four registers in a row, from a multiple of four
// on, as do the rows of A; so the sums of even rows are kept in odd registers, the elements of even
// rows in even ones, and a multiply-add finds its operands in both register banks.
template <int STRIDE, int TM, int TN>
GEMM_DEVICE void put_sums(Vec<float>* to, const float (&acc)[TM][TN]) {
#pragma unroll
  for (int v = 0; v < TM * TN / 4; ++v) {
    const int i = v * 2 / TN * 2, j = v * 2 % TN;
    Vec<float> sums = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) sums.set(e, acc[i + 1 - e % 2][j + e / 2]);
    to[v * STRIDE] = sums;
  }
}

// Two such vectors side by side: 2 rows of 4.
struct SumBlock {
  float row[2][4] = {};
  // Adds the vectors at `from` and `stride` vectors on.
  GEMM_DEVICE void add(const Vec<float>* from, int stride) {
    const Vec<float> left = from[0], right = from[stride];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      row[1 - e % 2][e / 2] += left[e];
      row[1 - e % 2][2 + e / 2] += right[e];
    }
  }
};

// The K slices of `tiles` tiles from `first` on, one tile after the other, in equal runs for
// `blocks` blocks. There are no more tiles than blocks, so that a run lies in one tile or two.
struct StreamK {
  int first, tiles, slices, blocks;
  // Where block q's run begins: tile number * slices + slice.
  __host__ __device__ int64_t begin(int q) const { return q * (int64_t{tiles} * slices) / blocks; }
};

template <class Loop>
__global__ void __launch_bounds__(Loop::Tile::THREADS, Loop::Tile::BLOCKS)
    stream_k_sums(GemmArgs<float> p, StreamK work, Vec<float>* parts) {
  using Tile = typename Loop::Tile;
  constexpr int PART = Tile::SUMS * Tile::THREADS;  // vectors
  const int64_t end = work.begin(blockIdx.x + 1);
  Vec<float>* part = parts + int64_t{blockIdx.x} * 2 * PART;
#pragma unroll 1
  for (int64_t at = work.begin(blockIdx.x); at < end; part += PART) {
    const int tile = work.first + int(at / work.slices), slice = int(at % work.slices);
    const int64_t rest = end - at;
    const int to = rest < work.slices - slice ? slice + int(rest) : work.slices;
    const TileIndex where = Loop::place(p, tile);
    Loop::sum(p, where.m, where.n, slice * Tile::BK, to < work.slices ? to * Tile::BK : p.K, part);
    at += to - slice;
  }
}

// Adds up the parts of a tile, in order of K: SUMS / 2 blocks a tile, two vectors a thread.
template <class Loop>
__global__ void __launch_bounds__(Loop::Tile::THREADS)
    stream_k_store(GemmArgs<float> p, StreamK work, const Vec<float>* parts) {
  using Tile = typename Loop::Tile;
  constexpr int PART = Tile::SUMS * Tile::THREADS, STORERS = Tile::SUMS / 2;
  const int nth = blockIdx.x / STORERS, share = blockIdx.x % STORERS;
  const int64_t begin = int64_t{nth} * work.slices, end = begin + work.slices;
  int q = int(begin * work.blocks / (int64_t{work.tiles} * work.slices));
  while (work.begin(q + 1) <= begin) ++q;  // to the first block with a part of this tile
  parts += share * 2 * Tile::THREADS + threadIdx.x;
  SumBlock sums;
#pragma unroll 1
  for (; q < work.blocks && work.begin(q) < end; ++q) {
    if (work.begin(q) == work.begin(q + 1)) continue;  // it had nothing to do
    const int second = work.begin(q) < begin;          // its run began in the tile before
    sums.add(parts + (int64_t{q} * 2 + second) * PART, Tile::THREADS);
  }
  const TileIndex where = Loop::place(p, work.first + nth);
  Loop::store(p, where.m, where.n, threadIdx.x, share, sums);
}

// Computes the last `tiles` tiles of C, from `first` on, by as many blocks as run at once.
template <class Loop>
void launch_stream_k(const GemmArgs<float>& p, int first, int tiles, Stream stream) {
  using Tile = typename Loop::Tile;
  static_assert(Tile::GROUPS == 1, "a part is one group's sums");
  const StreamK work{first, tiles, cdiv(p.K, Tile::BK), sm_count() * Tile::BLOCKS};
  const Workspace parts(size_t(work.blocks) * 2 * Tile::BM * Tile::BN * sizeof(float), stream);
  launch(stream_k_sums<Loop>, work.blocks, dim3(Tile::THREADS), {.smem = Tile::SMEM}, stream, p,
         work, parts.as<Vec<float>>());
  launch(stream_k_store<Loop>, int64_t{tiles} * (Tile::SUMS / 2), dim3(Tile::THREADS), {}, stream,
         p, work, parts.as<const Vec<float>>());
}

GEMM_BUILD_NAMESPACE_END
