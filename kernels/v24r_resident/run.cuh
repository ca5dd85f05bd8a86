// A persistent block's way through C: down one strip after the other, so that a strip's columns of
// B may stay.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/wgmma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// A block's run of tiles of C, each of PARTS parts, or one where a strip or a run ends. The strips
// are `height` parts high and, one after the other, cut into equal runs, one a block. A run begins
// at the first part in it that is a multiple of a run's length, or 0, and goes round: so all blocks
// are at one of few heights at any time, L2 answers their requests for A together, and they write
// the same rows of C. From top to bottom, as the runs lie, 16384 x 16384 x 512 takes 8 % more.
template <int PARTS>
class Run {
  static_assert(PARTS == 1 || PARTS == 2, "a tile is whole, or has two halves");

 public:
  int strip, part, count;  // of the present tile, if there is one: its first part, and how many

  GEMM_DEVICE Run(int strips, int height) : height_(height) {
    const int64_t parts = int64_t{strips} * height;
    const int begin = int(parts * blockIdx.x / gridDim.x), longest = cdiv(int(parts), gridDim.x);
    left_ = int(parts * (blockIdx.x + 1) / gridDim.x) - begin;
    first_ = begin / height;
    top_ = begin % height;
    const int start = cdiv(top_, longest) * longest;
    rest_ = (start < height ? start : height) - top_;
    rest_ = rest_ < left_ ? rest_ : left_;
    strip = first_;
    part = top_ + rest_;
    find();
  }
  GEMM_DEVICE bool more() const { return left_ > 0; }
  GEMM_DEVICE bool last() const { return left_ == count; }
  GEMM_DEVICE void advance() {
    left_ -= count;
    part += count;
    find();
    hold_registers(strip, part);  // computed here, not later
    hold_registers(left_, rest_);
  }

 private:
  GEMM_DEVICE void find() {
    if (part == height_) {
      part = 0;
      ++strip;
    }
    if (left_ == rest_) {  // round to the run's beginning
      strip = first_;
      part = top_;
    }
    const int end = left_ > rest_ ? left_ - rest_ : left_, most = height_ - part;
    count = PARTS == 1 || end == 1 || most == 1 ? 1 : PARTS;
  }

  int height_, left_;       // parts of a strip; that are left of the run
  int first_, top_, rest_;  // where it begins; how many parts there come last
};

// The producer's work on a run, by one thread: for each tile its slices of A into the ring at sA,
// and into sB those of the strip of B, unless they lie there. A part has LEAST rows.
template <class TileA, class TileB, int SLICES, int LEAST, int STAGES, int PARTS>
GEMM_DEVICE void produce_run(Run<PARTS> run, uint8_t* sA, uint8_t* sB, uint64_t* full,
                             uint64_t* empty, Slot<STAGES> slot, const TensorMap& map_a,
                             const TensorMap& map_b GEMM_CALLER_ARG) {
  for (int loaded = -1; run.more(); loaded = run.strip, run.advance())
    for (int slice = 0; slice < SLICES; ++slice, slot.advance()) {
      const int s = slot.stage, k = slice * TileA::DEPTH, n = run.strip * TileB::EXTENT;
      const bool next = run.strip != loaded;
      mbarrier_wait(&empty[s], slot.phase ^ 1 GEMM_CALLER_PASS);
      mbarrier_arrive_expect_tx(&full[s], TileA::BYTES + next * TileB::BYTES GEMM_CALLER_PASS);
      if (next) TileB::load(sB + slice * TileB::BYTES, map_b, n, k, &full[s] GEMM_CALLER_PASS);
      TileA::load(sA + s * TileA::BYTES, map_a, run.part * LEAST, k, &full[s] GEMM_CALLER_PASS);
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
