// Stream-K for persistent CTAs: work units and their fixup. Taught in v26.
#pragma once

#include <atomic>

#include "device/persistent.cuh"
#include "device/ptx/grid.cuh"
#include "device/vec.cuh"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A work unit: k-tiles begin <= k < end of one tile of C.
struct WorkUnit {
  int tile, begin, end;
};

// The work units of one CTA, of `blocks` CTAs, for tiles_m * tiles_n tiles of `k_tiles` k-tiles
// each. There are at least as many tiles as CTAs. If the last wave is not full, the first tiles
// (more than one wave of them, less than two) are stream-K tiles: their k-tiles form one row, cut
// into equal shares, one a CTA. A share is at least as long as a tile, so a tile has at most two
// work units, and the first is that of the CTA with the lower index. A CTA computes in this order:
//   1. the first work unit of the tile that its share ends in: the next CTA waits for its sums
//   2. the last work unit of the tile that its share begins in. All CTAs have now computed for the
//      same time, so they read the same k-tiles at the same time; before, they were in two groups
//   3. whole tiles: those of its share, then data-parallel ones
// A short last work unit comes later: it would end before the CTA before has stored its partial sums.
// After one whole tile, as a rule. But two whole tiles of one consumer, with no more than that unit
// between them, leave no time for a long epilogue. Where that is to be expected, it comes last.
// The object lies in shared memory because there are too few registers.
class WorkUnits {
 public:
  // Tiles are counted in raster groups of at most group_m rows of tiles.
  GEMM_DEVICE WorkUnits(int block, int blocks, int tiles_m, int tiles_n, int group_m, int k_tiles,
                        bool long_epilogue)
      : tiles_m_(tiles_m), tiles_n_(tiles_n), k_tiles_(k_tiles), blocks_(blocks) {
    group_m_ = raster_group_size(tiles_m, group_m);
    const int tiles = tiles_m * tiles_n, rest = k_tiles > 0 ? tiles % blocks : 0;
    // Share q begins after q * (1 + rest / blocks) tiles. (In 32 bits: a 64-bit division is a
    // call.)
    const auto k_tile = [&](int q) { return int(unsigned(q * rest % blocks) * k_tiles / blocks); };
    const auto whole_tiles = [&](int q) { return rest > 0 ? q + q * rest / blocks : 0; };
    done_ = k_tile(block);
    begun_ = k_tile(block + 1);
    from_ = whole_tiles(block) + (done_ > 0);
    to_ = whole_tiles(block + 1);
    waves_from_ = (rest > 0 ? blocks + rest : 0) + block;
    const int whole = to_ - from_ + (tiles - waves_from_ + blocks - 1) / blocks;
    const bool is_short = whole > 0 && done_ > k_tiles - SHORT;
    end_at_ = (begun_ > 0) + (is_short ? (long_epilogue ? whole : 1) : 0);
    count_ = (begun_ > 0) + whole + (done_ > 0);
  }
  GEMM_DEVICE int count() const { return count_; }
  GEMM_DEVICE WorkUnit operator[](int nth) const {
    if (nth == 0 && begun_ > 0) return {to_, 0, begun_};
    if (nth == end_at_ && done_ > 0) return {from_ - 1, done_, k_tiles_};
    const int i = nth - (begun_ > 0) - (done_ > 0 && nth > end_at_), share = to_ - from_;
    return {i < share ? from_ + i : waves_from_ + (i - share) * blocks_, 0, k_tiles_};
  }
  GEMM_DEVICE bool ends_tile(const WorkUnit& unit) const { return unit.end == k_tiles_; }
  GEMM_DEVICE TileIndex place(const WorkUnit& unit) const {
    return grouped_tile(unit.tile, tiles_m_, tiles_n_, group_m_);
  }

 private:
  static constexpr int SHORT = 10;  // k-tiles; a last work unit of fewer is short

  int tiles_m_, tiles_n_, group_m_, k_tiles_, blocks_;
  int from_, to_;     // whole tiles of the share: from_ to before to_
  int done_, begun_;  // k-tiles of tile from_ - 1 by the CTA before, of tile to_ by this one
  int waves_from_;    // this CTA's first data-parallel tile
  int end_at_, count_;
};

// The fixup: each CTA's partial sums in global memory, for the CTA after it. They lie thread by
// thread, those of 128 threads side by side; behind them a flag for each warp, where its first
// thread's next sums would be. A flag is set when it holds `tag`, a number that memory does not
// hold by chance.
struct Fixup {
  Vec<float>* sums;
  uint64_t tag;

  // Vectors a CTA: its sums, and a row of 128 for the flags.
  static constexpr __host__ __device__ int64_t vectors(int sums) { return sums / 4 + 128; }

  // Stores the sums of a tile's first work unit, by a warpgroup. Each warp sets its own flag, so
  // that a warp waits only for its counterpart.
  template <int ROWS, int COUNT>
  GEMM_DEVICE void store_partials(const float (&acc)[ROWS][COUNT]) const {
    constexpr int SUMS = ROWS * COUNT;
    Vec<float>* const to = sums + blockIdx.x * vectors(SUMS * 128) + threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
      Vec<float> v = {};
#pragma unroll
      for (int e = 0; e < 4; ++e) v.set(e, acc[i / COUNT][i % COUNT + e]);
      to[i / 4 * 128] = v;
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) flag_set(reinterpret_cast<uint64_t*>(to + SUMS / 4 * 128), tag);
  }
  // Adds the sums that the CTA before has stored, by the warpgroup that has the last work unit.
  template <int ROWS, int COUNT>
  GEMM_DEVICE void add_partials(float (&acc)[ROWS][COUNT] GEMM_CALLER_ARG) const {
    constexpr int SUMS = ROWS * COUNT;
    Vec<float>* const from = sums + (blockIdx.x - 1) * vectors(SUMS * 128) + threadIdx.x % 128;
    if (threadIdx.x % 32 == 0) {
      uint64_t* const flag = reinterpret_cast<uint64_t*>(from + SUMS / 4 * 128);
      flag_wait(flag, tag GEMM_CALLER_PASS);
      *flag = 0;  // a CUDA graph launches again, with the same tag
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
      const Vec<float> v = from[i / 4 * 128];
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i / COUNT][i % COUNT + e] += v[e];
    }
  }
};

// Scratch memory for the fixup of one launch: `blocks` CTAs, `tiles` tiles of bm x bn. Empty where
// all waves are full. Host code.
class FixupWorkspace {
 public:
  FixupWorkspace(int64_t tiles, int64_t blocks, int bm, int bn, Stream stream)
      : memory_(tiles == 0 || tiles % blocks == 0
                    ? 0
                    : blocks * Fixup::vectors(bm * bn) * sizeof(Vec<float>),
                stream) {}
  Fixup get() const {
    static std::atomic<uint64_t> launches = 0;
    return {memory_.as<Vec<float>>(), ++launches * 0x9E3779B97F4A7C15u};
  }

 private:
  const Workspace memory_;
};

GEMM_BUILD_NAMESPACE_END
