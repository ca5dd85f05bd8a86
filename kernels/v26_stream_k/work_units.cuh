// Stream-K for persistent CTAs: their work units. Taught in v26.
#pragma once

#include "device/persistent.cuh"

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

GEMM_BUILD_NAMESPACE_END
