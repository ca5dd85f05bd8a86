// Persistent blocks that go along a strip of C, so that its rows of A may stay. Taught in v24r.
#pragma once

#include <cstdint>

#include "device/wgmma_epilogue.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether 128 rows of A with all of K fit in shared memory, beside a ring for B and tiles of C.
constexpr int RESIDENT_K = 512;
template <class T>
bool allows_resident(const GemmArgs<T>& p) {
  return p.K > 0 && p.K <= RESIDENT_K && has_wide_rows(p) &&
         int64_t{cdiv(p.M, 64)} * cdiv(p.N, 64) < INT32_MAX;
}

// What v24r's busiest SM does, as TileChoice::work counts it: the cost of a result by slices of 64
// of K (4, 6 and 8 are whole laps of the ring, else the last are zeros), what it costs to fetch the
// first strip, in rounds, and what, if all go on to their next strip at the same time. Measured on
// an H200, at 2048 to 16384 and 28672 x 8192.
inline double resident_work(int M, int N, int K, int sms) {
  constexpr double COST[] = {2, 2, 1.1, 0.93, 0.85, 1.0, 0.91, 1.07, 0.96}, FIRST = 0.22;
  const int strips = cdiv(M, 128);
  const int64_t tiles = int64_t{strips} * cdiv(N, 128);
  const double cost = COST[cdiv(K, 64)] * (strips > sms ? 1.08 : 1);
  return cost * (double((tiles + sms - 1) / sms) + FIRST) * 128 * 128;
}

// Calls work(m, n, whether it is the last one) for every `step`-th tile from the `first` on of the
// block's run: the tiles of C, row by row, are cut into equal runs, one a block. A run begins at the
// first column in it that is a multiple of a run's length, or 0, and goes round: so all blocks are
// at one of few columns at any time, and L2 answers their requests for B together. From left to
// right 16384 x 16384 x 512 takes 8 % longer.
template <class Work>
GEMM_DEVICE void for_each_of_run(int first, int step, int tiles_m, int tiles_n, Work&& work) {
  const int64_t tiles = int64_t{tiles_m} * tiles_n;
  const int begin = int(tiles * blockIdx.x / gridDim.x), longest = cdiv(int(tiles), gridDim.x);
  const int length = int(tiles * (blockIdx.x + 1) / gridDim.x) - begin;
  const int column = begin % tiles_n, start = cdiv(column, longest) * longest;
  const int skip = (start < tiles_n ? start : tiles_n) - column;
  for (int i = first; i < length; i += step) {
    const int tile = begin + (i + skip < length ? i + skip : i + skip - length);
    work(tile / tiles_n, tile % tiles_n, i == length - 1);
  }
}

GEMM_BUILD_NAMESPACE_END
