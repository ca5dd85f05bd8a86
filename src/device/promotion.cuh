// Two-level sums: those of 128 of k on tensor cores, promoted to float. Taught in v31.
#pragma once

#include "device/multicast.cuh"
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

// The lead of consumer 0 over consumer 1, in k-tiles: at the end of a tile one then multiplies while
// the other one stores. With a lead of 0 they are as they come. `barrier`: of 1 arrival.
template <int LEAD, int STAGES>
struct Lead {
  static_assert(LEAD < STAGES, "consumer 0 needs stages that consumer 1 is not at yet");
  uint64_t* barrier;
  int wg;
  uint32_t parity = 0;

  // With fewer k-tiles consumer 0 could be two tiles ahead, and a parity tells only one.
  static GEMM_DEVICE bool is_kept(int k_tiles) { return LEAD > 0 && k_tiles >= STAGES; }
  GEMM_DEVICE void begin_tile(int k_tiles GEMM_CALLER_ARG) {
    if (!is_kept(k_tiles) || wg != 1) return;
    mbarrier_wait(barrier, parity GEMM_CALLER_PASS);
    parity ^= 1;
  }
  GEMM_DEVICE void end_k_tile(int k_tile, int k_tiles GEMM_CALLER_ARG) const {
    if (is_kept(k_tiles) && k_tile == LEAD - 1 && threadIdx.x == 0)  // one of consumer 0's
      mbarrier_arrive(barrier GEMM_CALLER_PASS);
  }
};

// Releases a stage: when the warpgroup's wgmma have read it, or, where a warp's lanes read it
// themselves (READERS = 32), when those of each of the four warps have.
template <int CLUSTER, int READERS>
GEMM_DEVICE void release_stage(uint64_t* empty GEMM_CALLER_ARG) {
  static_assert(READERS == 128 || READERS == 32, "a warpgroup or a warp");
  if constexpr (READERS == 128) {
    arrive_at_all<CLUSTER>(empty GEMM_CALLER_PASS);
  } else {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (CLUSTER == 1 && lane == 0) mbarrier_arrive(empty GEMM_CALLER_PASS);
    if (CLUSTER > 1 && lane < CLUSTER) mbarrier_arrive_remote(empty, lane GEMM_CALLER_PASS);
  }
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
template <class TileA, class TileB, class Parts, int CLUSTER, int READERS, class Shared, int STAGES,
          class Lead, class Load, class Promote>
GEMM_DEVICE void multiply_promoted(Shared& s, PipelineState<STAGES>& state, int k_tiles, int row,
                                   Lead& lead, Load&& load, Promote&& promote GEMM_CALLER_ARG) {
  constexpr int COUNT = Parts::COUNT, BUFFERS = Parts::BUFFERS;
  constexpr int COLUMNS = TileB::EXTENT / COUNT, SUMS = COLUMNS / 2;
  float part[BUFFERS][SUMS];
  clear_registers(part);
  lead.begin_tile(k_tiles GEMM_CALLER_PASS);
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
    release_stage<CLUSTER, READERS>(&s.empty[stage] GEMM_CALLER_PASS);
    promote((COUNT - 1) * SUMS, part[BUFFERS - 1], k_tile);
    lead.end_k_tile(k_tile, k_tiles GEMM_CALLER_PASS);
  }
}
// [/region multiply]

GEMM_BUILD_NAMESPACE_END
