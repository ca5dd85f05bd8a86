// One memory instruction of a warp, and what it costs a GPU: the only place that knows sectors,
// banks and phases. Pure functions of the addresses.
#pragma once

#include <cstdint>

namespace gemm::sim {

// The accesses of the lanes of one warp that a GPU would issue together.
struct WarpRequest {
  uint32_t lanes;        // which take part
  uint8_t bytes;         // of each lane's access: 1, 2, 4, 8 or 16
  uint8_t matrix;        // 1 + its index; 0: shared memory
  uint32_t address[32];  // of each lane in `lanes`: the offset in shared memory, or the low half of
                         // the address (a warp that spans 4 GiB would be counted wrongly)
};

// 32-byte sectors of global memory that the request touches: what L1 asks of L2 when it misses.
int sectors(const WarpRequest& r);
// The least number of sectors that can hold the bytes that it touches.
int ideal_sectors(const WarpRequest& r);

enum class SharedAccess { load, store };

// Passes through the shared memory's 32 banks of 4 bytes. Up to 4 bytes a lane, all 32 lanes are
// served together; 8 bytes a lane, half a warp at a time; 16 bytes, a quarter. Loads of 8 and 16
// bytes take two such phases in one when all neighbours (lanes l and l ^ 1), or all lanes l and
// l ^ 2, want the same bytes. Within a phase each pass gives every bank one word, and lanes that
// want the same word share it; so a phase takes as many passes as the busiest bank has different
// words. The rule was measured on an H200 with bench/limits/shared_patterns.cu; a test holds it to the
// counts.
// `of_lane[lane]`, unless null, is set to the pass that serves the lane, for those in r.lanes. The
// order of passes is this function's own; the hardware's is not known.
int wavefronts(const WarpRequest& r, SharedAccess access, uint8_t* of_lane = nullptr);
// Without conflicts: one pass for each phase with a lane in it.
int ideal_wavefronts(const WarpRequest& r, SharedAccess access);

}  // namespace gemm::sim
