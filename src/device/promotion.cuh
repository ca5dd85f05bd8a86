// Two-level sums: those of 128 of k on tensor cores, promoted to float. Taught in v31.
#pragma once

#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/wgmma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// The parts of a tile's columns, whose products of a k-tile are a group of wgmma each, and how many
// parts have accumulators of their own for partial sums.
template <int COUNT_, int BUFFERS_>
struct ColumnParts {
  static constexpr int COUNT = COUNT_, BUFFERS = BUFFERS_;
};
using OnePart = ColumnParts<1, 1>;
using Halves = ColumnParts<2, 1>;   // one after the other: sums of 256 columns leave 64 registers
using Overlap = ColumnParts<2, 2>;  // one is multiplied while the other one is added

// Releases a stage: when the warpgroup's wgmma have read it, or, where a warp's lanes read it
// themselves (READERS = 32), when those of each of the four warps have.
template <int READERS>
GEMM_DEVICE void release_stage(uint64_t* empty GEMM_CALLER_ARG) {
  static_assert(READERS == 128 || READERS == 32, "a warpgroup or a warp");
  if (READERS == 32) __syncwarp();
  if (threadIdx.x % READERS == 0) mbarrier_arrive(empty GEMM_CALLER_PASS);
}

// [region multiply]
// The wgmma of 64 rows of a k-tile from `row` on, as one group: a sum of their own. `sB` is where
// the part's columns begin.
template <class TileA, class TileB, int COUNT>
GEMM_DEVICE void multiply_from_zero(float (&part)[COUNT], const uint8_t* sA, const uint8_t* sB,
                                    int row GEMM_CALLER_ARG) {
  using T = typename TileA::Element;
  constexpr int MMA_K = 32 / sizeof(T);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < TileA::DEPTH / MMA_K; ++k)
    wgmma<T, COUNT * 2>(part, TileA::descriptor(sA, row GEMM_CALLER_PASS) + k * TileA::K_STEP,
                        TileB::descriptor(sB, 0 GEMM_CALLER_PASS) + k * TileB::K_STEP,
                        k > 0 GEMM_CALLER_PASS);
  wgmma_commit();
}

// A consumer's k-tiles of one tile, by 64 rows of A from `row` on. For each, load(stage, k_tile) is
// called while the tensor cores multiply: it may read the stage. Then, for each part of its columns,
// promote(first, part, k_tile) adds the partial sums `part` to the accumulators from `first` on, a
// constant. READERS: threads that release a stage together, a warp's if `load` reads it.
template <class TileA, class TileB, class Parts, int READERS, class Shared, int STAGES, class Load,
          class Promote>
GEMM_DEVICE void multiply_promoted(Shared& s, PipelineState<STAGES>& state, int k_tiles, int row,
                                   Load&& load, Promote&& promote GEMM_CALLER_ARG) {
  constexpr int COUNT = Parts::COUNT, BUFFERS = Parts::BUFFERS;
  constexpr int COLUMNS = TileB::EXTENT / COUNT, SUMS = COLUMNS / 2;
  float part[BUFFERS][SUMS];
  clear_registers(part);
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state.advance()) {
    const int stage = state.stage;
    const uint8_t *const sA = s.A[stage], *const sB = s.B[stage];
    const auto multiply = [&](int nth, float(&of)[SUMS]) {
      multiply_from_zero<TileA, TileB>(of, sA, sB + nth * COLUMNS * TileB::ROW_BYTES,
                                       row GEMM_CALLER_PASS);
    };
    mbarrier_wait(&s.full[stage], state.phase GEMM_CALLER_PASS);
    multiply(0, part[0]);
    if (COUNT == 2 && BUFFERS == 2) multiply(1, part[BUFFERS - 1]);
    load(stage, k_tile);
    if constexpr (COUNT == 2) {
      wgmma_wait<BUFFERS - 1>(part[0] GEMM_CALLER_PASS);
      promote(0, part[0], k_tile);
      if (BUFFERS == 1) multiply(1, part[0]);
    }
    wgmma_wait<0>(part[BUFFERS - 1] GEMM_CALLER_PASS);
    release_stage<READERS>(&s.empty[stage] GEMM_CALLER_PASS);
    promote((COUNT - 1) * SUMS, part[BUFFERS - 1], k_tile);
  }
}
// [/region multiply]

GEMM_BUILD_NAMESPACE_END
