// A persistent block's way through C: down one column panel after the other, so that a column
// panel's columns of B may stay.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A block's range of tiles of C, each of PARTS parts, or one where a column panel or a range ends.
// The column panels are `height` parts high and, one after the other, cut into equal ranges, one a
// block. A range begins at the first part in it that is a multiple of a range's length, or 0, and
// goes round: so all blocks are at one of few heights at any time, L2 answers their requests for A
// together, and they write the same rows of C. From top to bottom, as the ranges lie, 16384 x 16384
// x 512 takes 8 % more.
template <int PARTS>
class WorkRange {
  static_assert(PARTS == 1 || PARTS == 2, "a tile is whole, or has two halves");

 public:
  int col_panel, part, count;  // of the present tile, if there is one: its first part, and how many

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
    fence_operand(col_panel, part);  // computed here, not later
    fence_operand(left_, rest_);
  }

 private:
  GEMM_DEVICE void find() {
    if (part == height_) {
      part = 0;
      ++col_panel;
    }
    if (left_ == rest_) {  // round to the range's beginning
      col_panel = first_;
      part = top_;
    }
    const int end = left_ > rest_ ? left_ - rest_ : left_, most = height_ - part;
    count = PARTS == 1 || end == 1 || most == 1 ? 1 : PARTS;
  }

  int height_, left_;       // parts of a column panel; that are left of the range
  int first_, top_, rest_;  // where it begins; how many parts there come last
};

// The producer's work on a range, by one thread: for each tile its k-tiles of A into the pipeline
// at sA, and into sB those of the column panel of B, unless they lie there. A part has LEAST rows.
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

// Calls work(blocks of 64 rows, as a constant): all that a tile has, or the least.
template <int MOST, int LEAST, class Work>
GEMM_DEVICE void with_blocks(int blocks, Work&& work) {
  if constexpr (LEAST < MOST)
    if (blocks == LEAST) return work(std::integral_constant<int, LEAST>());
  work(std::integral_constant<int, MOST>());
}

GEMM_BUILD_NAMESPACE_END
