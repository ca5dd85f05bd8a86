// A persistent CTA's range of C: down one column panel after the other, so that B's columns stay.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// The tiles of one CTA, in the order that it computes them. C is a row of column panels, each of
// `height` parts (half a tile or a whole one); the row is cut into equal ranges, one a CTA. A tile
// has PARTS parts, or one where a column panel or the range ends.
//
// A range does not start at its first part, but at its first multiple of a range's length (or 0),
// and wraps around to its beginning. So all CTAs are at one of few heights at any time: they share
// A in L2 and write the same rows of C. From top to bottom 16384 x 16384 x 512 takes 8 % longer.
template <int PARTS>
class WorkRange {
  static_assert(PARTS == 1 || PARTS == 2, "a tile is whole, or has two halves");

 public:
  int col_panel, part, count;  // of this tile, if there is one: its first part, how many parts

  GEMM_DEVICE WorkRange(int col_panels, int height) : height_(height) {
    const int64_t parts = int64_t{col_panels} * height;
    const int begin = int(parts * blockIdx.x / gridDim.x), longest = cdiv(int(parts), gridDim.x);
    left_ = int(parts * (blockIdx.x + 1) / gridDim.x) - begin;
    first_ = begin / height;
    top_ = begin % height;
    const int start = cdiv(top_, longest) * longest;
    rest_ = (start < height ? start : height) - top_;
    rest_ = rest_ < left_ ? rest_ : left_;
    col_panel = first_;
    part = top_ + rest_;
    find();
  }
  GEMM_DEVICE bool has_tile() const { return left_ > 0; }
  GEMM_DEVICE bool last() const { return left_ == count; }
  GEMM_DEVICE void advance() {
    left_ -= count;
    part += count;
    find();
    fence_operand(col_panel, part);  // so that the compiler computes them here
    fence_operand(left_, rest_);
  }

 private:
  GEMM_DEVICE void find() {
    if (part == height_) {
      part = 0;
      ++col_panel;
    }
    if (left_ == rest_) {  // wraps around to the range's beginning
      col_panel = first_;
      part = top_;
    }
    const int end = left_ > rest_ ? left_ - rest_ : left_, most = height_ - part;
    count = PARTS == 1 || end == 1 || most == 1 ? 1 : PARTS;
  }

  int height_, left_;       // parts of a column panel; parts of the range that are left
  int first_, top_, rest_;  // the range's first column panel and part; parts that come last
};

// The producer's loop over a range, by one thread. For each tile it loads A's k-tiles into the
// pipeline at sA; B's k-tiles go to sB only when the column panel changes. A part has LEAST rows.
template <class TileA, class TileB, int K_TILES, int LEAST, int STAGES, int PARTS>
GEMM_DEVICE void produce_range(WorkRange<PARTS> range, uint8_t* sA, uint8_t* sB, uint64_t* full,
                               uint64_t* empty, PipelineState<STAGES> state, const TensorMap& map_a,
                               const TensorMap& map_b GEMM_CALLER_ARG) {
  for (int loaded = -1; range.has_tile(); loaded = range.col_panel, range.advance())
    for (int k_tile = 0; k_tile < K_TILES; ++k_tile, state.advance()) {
      const int s = state.stage, k = k_tile * TileA::DEPTH, n = range.col_panel * TileB::EXTENT;
      const bool next = range.col_panel != loaded;
      mbarrier_wait(&empty[s], state.phase ^ 1 GEMM_CALLER_PASS);
      mbarrier_arrive_expect_tx(&full[s], TileA::BYTES + next * TileB::BYTES GEMM_CALLER_PASS);
      if (next) TileB::load(sB + k_tile * TileB::BYTES, map_b, n, k, &full[s] GEMM_CALLER_PASS);
      TileA::load(sA + s * TileA::BYTES, map_a, range.part * LEAST, k, &full[s] GEMM_CALLER_PASS);
    }
}

// Calls work(blocks), a constant: 64-row blocks of a tile, MOST or LEAST.
template <int MOST, int LEAST, class Work>
GEMM_DEVICE void with_blocks(int blocks, Work&& work) {
  if constexpr (LEAST < MOST)
    if (blocks == LEAST) return work(std::integral_constant<int, LEAST>());
  work(std::integral_constant<int, MOST>());
}

// Whether 128 columns of B with all of K fit in shared memory, beside a pipeline for A and tiles of
// C.
constexpr int B_STATIONARY_K = 512;
template <class T>
bool allows_b_stationary(const GemmArgs<T>& p) {
  return p.K > 0 && p.K <= B_STATIONARY_K && has_aligned_c(p) &&
         int64_t{cdiv(p.M, 64)} * cdiv(p.N, 128) < INT32_MAX;
}

GEMM_BUILD_NAMESPACE_END
