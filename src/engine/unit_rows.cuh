// Accumulators of wgmma on their way to C through rows in shared memory.
//
// A unit is 64 x 8 results: four of them a thread of a warpgroup. In rows, neighbouring threads store
// neighbours in a row of C, 8 elements each. The 64 lie along x, which is C's rows or, swapped, its
// columns.
#pragma once

#include "device/vec.cuh"
#include "device/wgmma_epilogue.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Floats from a unit to the next: gaps avoid bank conflicts. Room for either way is UNIT_ROOM.
constexpr int UNIT_STEP = 64 * 8 + 4, UNIT_STEP_SWAPPED = 8 * (64 + 4);
constexpr int UNIT_ROOM = UNIT_STEP_SWAPPED;

// A warpgroup's unit into rows.
GEMM_DEVICE void put_unit(float* rows, int unit, bool swapped, const float (&sums)[4]) {
  const int tid = threadIdx.x, lane_x = tid % 128 / 32 * 16 + tid % 32 / 4, lane_y = tid % 4 * 2;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int x = lane_x + e / 2 * 8, y = lane_y + e % 2;
    (swapped ? rows[unit * UNIT_STEP_SWAPPED + y * 68 + x] : rows[unit * UNIT_STEP + x * 8 + y]) =
        sums[e];
  }
}

// `units` units from rows to C, by thread `thread` of `threads`. origin(unit, x, y) says where in C a
// unit begins.
template <class T, class Origin>
GEMM_DEVICE void store_units(const GemmArgs<T>& p, const float* rows, int units, bool swapped,
                             bool aligned_c, int thread, int threads, Origin&& origin) {
  with_epilogue(p, [&](const auto& out) {
    for (int i = thread; i < units * 64; i += threads) {
      // 8 elements of a row of C: of one of a unit's 64 rows, or of one of its 8.
      const int unit = swapped ? i / 64 : i % units, at = swapped ? i % 64 : i / units;
      int x, y;
      origin(unit, x, y);
      x += swapped ? at % 8 * 8 : at;
      y += swapped ? at / 8 : 0;
      const float* const from = swapped ? rows + unit * UNIT_STEP_SWAPPED + at / 8 * 68 + at % 8 * 8
                                        : rows + unit * UNIT_STEP + at * 8;
      float eight[8];
#pragma unroll
      for (int e = 0; e < 8; e += 4) {
        const Vec<float> four = load_vec(from + e);
#pragma unroll
        for (int f = 0; f < 4; ++f) eight[e + f] = four[f];
      }
      const int m = swapped ? y : x, n = swapped ? x : y;
      aligned_c ? store_group<true>(out, m, n, eight) : store_group<false>(out, m, n, eight);
    }
  });
}

GEMM_BUILD_NAMESPACE_END
