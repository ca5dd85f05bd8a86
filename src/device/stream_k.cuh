// Stream-K: tiles that do not fill a wave are cut along K, so that all SMs end together. (Osama et
// al., "Stream-K: Work-centric parallel decomposition for GEMM", 2023.)
//
// A rung's Loop gives it
//   Loop::Tile   BM, BN, BK, TM, TN (floats), THREADS, of which the first GROUP end with the sums,
//                BLOCKS an SM
//   Loop::sum    acc = the products of block tile (bm, bn) for k_begin <= k < k_end
//   Loop::store  acc to C
#pragma once

#include "device/vec.cuh"
#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A thread's sums in memory, vector by vector, STRIDE vectors apart.
template <int STRIDE, int TM, int TN>
GEMM_DEVICE void put_sums(Vec<float>* to, const float (&acc)[TM][TN]) {
#pragma unroll
  for (int v = 0; v < TM * TN / 4; ++v) {
    Vec<float> sums = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) sums.set(e, acc[v * 4 / TN][v * 4 % TN + e]);
    to[v * STRIDE] = sums;
  }
}
template <int STRIDE, int TM, int TN>
GEMM_DEVICE void add_sums(const Vec<float>* from, float (&acc)[TM][TN]) {
#pragma unroll
  for (int v = 0; v < TM * TN / 4; ++v) {
    const Vec<float> sums = from[v * STRIDE];
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[v * 4 / TN][v * 4 % TN + e] += sums[e];
  }
}

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
  constexpr int PART = Tile::BM * Tile::BN / 4;  // vectors
  const int tiles_n = cdiv(p.N, Tile::BN);
  const int64_t end = work.begin(blockIdx.x + 1);
  Vec<float>* part = parts + int64_t{blockIdx.x} * 2 * PART;
#pragma unroll 1
  for (int64_t at = work.begin(blockIdx.x); at < end; part += PART) {
    const int tile = work.first + int(at / work.slices), slice = int(at % work.slices);
    const int64_t rest = end - at;
    const int to = rest < work.slices - slice ? slice + int(rest) : work.slices;
    float acc[Tile::TM][Tile::TN] = {};
    Loop::sum(p, tile / tiles_n, tile % tiles_n, slice * Tile::BK,
              to < work.slices ? to * Tile::BK : p.K, acc);
    if (int(threadIdx.x) < Tile::GROUP) put_sums<Tile::GROUP>(part + threadIdx.x, acc);
    at += to - slice;
  }
}

// Adds up the parts of a tile, in order of K.
template <class Loop>
__global__ void __launch_bounds__(Loop::Tile::GROUP)
    stream_k_store(GemmArgs<float> p, StreamK work, const Vec<float>* parts) {
  using Tile = typename Loop::Tile;
  constexpr int PART = Tile::BM * Tile::BN / 4;
  const int tiles_n = cdiv(p.N, Tile::BN), tile = work.first + blockIdx.x;
  const int64_t begin = int64_t{blockIdx.x} * work.slices, end = begin + work.slices;
  int q = int(begin * work.blocks / (int64_t{work.tiles} * work.slices));
  while (work.begin(q + 1) <= begin) ++q;  // to the first block with a part of this tile
  float acc[Tile::TM][Tile::TN] = {};
#pragma unroll 1
  for (; q < work.blocks && work.begin(q) < end; ++q) {
    if (work.begin(q) == work.begin(q + 1)) continue;  // it had nothing to do
    const int second = work.begin(q) < begin;          // its run began in the tile before
    add_sums<Tile::GROUP>(parts + (int64_t{q} * 2 + second) * PART + threadIdx.x, acc);
  }
  Loop::store(p, tile / tiles_n, tile % tiles_n, acc);
}

// Computes the last `tiles` tiles of C, from `first` on, by as many blocks as run at once.
template <class Loop>
void launch_stream_k(const GemmArgs<float>& p, int first, int tiles, size_t smem, Stream stream) {
  using Tile = typename Loop::Tile;
  const StreamK work{first, tiles, cdiv(p.K, Tile::BK), sm_count() * Tile::BLOCKS};
  const Workspace parts(size_t(work.blocks) * 2 * Tile::BM * Tile::BN * sizeof(float), stream);
  launch(stream_k_sums<Loop>, work.blocks, dim3(Tile::THREADS), {.smem = smem}, stream, p, work,
         parts.as<Vec<float>>());
  launch(stream_k_store<Loop>, tiles, dim3(Tile::GROUP), {}, stream, p, work,
         parts.as<const Vec<float>>());
}

GEMM_BUILD_NAMESPACE_END
