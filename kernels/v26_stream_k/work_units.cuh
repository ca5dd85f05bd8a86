// Persistent blocks that all end together: tiles that fill no wave are cut along K, and the block
// that ends a tile adds what the block before it began. Taught in v26.
#pragma once

#include <atomic>

#include "device/persistent.cuh"
#include "device/ptx/grid.cuh"
#include "device/vec.cuh"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

// k-tiles begin <= k < end of a tile of C.
struct WorkUnit {
  int tile, begin, end;
};

// What one block computes where tiles_m * tiles_n tiles of `k_tiles` k-tiles each are shared out
// among `blocks` blocks, no more than tiles. Where waves of whole tiles leave a rest, the first
// tiles, more than one wave of them and less than two, are one row of k-tiles, cut into equal runs.
// A run is at least as long as a tile, so that a tile has two work units at most, the first of them
// in the lower block. In this order:
//   1. the first work unit of a tile: the next block waits for it
//   2. the last work unit of a tile. All blocks are done with their two after the same time, and so
//      read the same k-tiles at once again, and before that there are only two groups of them
//   3. whole tiles
// Lies in shared memory, for registers are short.
class WorkUnits {
 public:
  // Tiles are counted in even groups of at most group_m rows.
  GEMM_DEVICE WorkUnits(int block, int blocks, int tiles_m, int tiles_n, int group_m, int k_tiles)
      : tiles_m_(tiles_m), tiles_n_(tiles_n), k_tiles_(k_tiles), blocks_(blocks) {
    group_m_ = raster_group_size(tiles_m, group_m);
    const int tiles = tiles_m * tiles_n, rest = k_tiles > 0 ? tiles % blocks : 0;
    // Run q begins behind q * (1 + rest / blocks) tiles. (In 32 bits: 64 are divided by a call.)
    const auto k_tile = [&](int q) { return int(unsigned(q * rest % blocks) * k_tiles / blocks); };
    const auto whole_tiles = [&](int q) { return rest > 0 ? q + q * rest / blocks : 0; };
    done_ = k_tile(block);
    begun_ = k_tile(block + 1);
    from_ = whole_tiles(block) + (done_ > 0);
    to_ = whole_tiles(block + 1);
    waves_from_ = (rest > 0 ? blocks + rest : 0) + block;
    const int whole = to_ - from_ + (tiles - waves_from_ + blocks - 1) / blocks;
    end_at_ = (begun_ > 0) + (whole > 0 && done_ > k_tiles - SHORT);
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
  // A last work unit of fewer k-tiles would be over before the first work unit has been handed
  // over: it comes behind a whole tile.
  static constexpr int SHORT = 10;

  int tiles_m_, tiles_n_, group_m_, k_tiles_, blocks_;
  int from_, to_;     // whole tiles of the run: from_ to before to_
  int done_, begun_;  // k-tiles that the block before does of tile from_ - 1, this one of tile to_
  int waves_from_;    // the first whole tile behind all runs
  int end_at_, count_;
};

// The sums that each block of a launch hands to the next: thread by thread, those of 128 threads
// side by side, and behind them a flag for each warp, where its first thread's next sums would be.
// A flag is set when it is `tag`, a number that memory does not hold by chance.
struct Fixup {
  Vec<float>* sums;
  uint64_t tag;

  // Of a block: its sums, and a row of 128 for the flags.
  static constexpr __host__ __device__ int64_t vectors(int sums) { return sums / 4 + 128; }

  // By a warpgroup that has the first work unit of a tile. A warp waits for none but its
  // counterpart.
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
  // By one that has the last work unit: adds what the block before has given.
  template <int ROWS, int COUNT>
  GEMM_DEVICE void add_partials(float (&acc)[ROWS][COUNT] GEMM_CALLER_ARG) const {
    constexpr int SUMS = ROWS * COUNT;
    Vec<float>* const from = sums + (blockIdx.x - 1) * vectors(SUMS * 128) + threadIdx.x % 128;
    if (threadIdx.x % 32 == 0) {
      uint64_t* const flag = reinterpret_cast<uint64_t*>(from + SUMS / 4 * 128);
      flag_wait(flag, tag GEMM_CALLER_PASS);
      *flag = 0;  // a graph launches again, with the same tag
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

// Scratch memory for that, of one launch of `blocks` blocks for `tiles` tiles of bm x bn; none
// where whole waves leave nothing to hand over. Host code.
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
