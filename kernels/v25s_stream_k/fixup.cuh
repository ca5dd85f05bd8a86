// The fixup of stream-K: sums of a tile that several CTAs compute.
#pragma once

#include <atomic>

#include "device/ptx/grid.cuh"
#include "device/vec.cuh"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

// The fixup: partial sums in global memory, for the CTA that ends a tile. A part is those of one
// warpgroup. They lie thread by thread, those of 128 threads side by side; behind them a flag for
// each warp, where its first thread's next sums would be. A flag is set when it holds `tag`, a number
// that memory does not hold by chance.
struct Fixup {
  Vec<float>* sums;
  uint64_t tag;

  // Vectors a part: its sums, and a row of 128 for the flags.
  static constexpr __host__ __device__ int64_t vectors(int sums) { return sums / 4 + 128; }

  // Stores a warpgroup's sums of a part of a tile. Each warp sets its own flag, so that a warp waits
  // only for its counterpart.
  template <int ROWS, int COUNT>
  GEMM_DEVICE void store_partials(unsigned part, const float (&acc)[ROWS][COUNT]) const {
    constexpr int SUMS = ROWS * COUNT;
    Vec<float>* const to = sums + part * vectors(SUMS * 128) + threadIdx.x % 128;
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
  // Adds the sums that another CTA's warpgroup stores there: one with a lower index (flag_wait).
  template <int ROWS, int COUNT>
  GEMM_DEVICE void add_partials(unsigned part, float (&acc)[ROWS][COUNT] GEMM_CALLER_ARG) const {
    constexpr int SUMS = ROWS * COUNT;
    Vec<float>* const from = sums + part * vectors(SUMS * 128) + threadIdx.x % 128;
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

// Scratch memory for the fixup of one launch: `parts` of them for `sums` sums each. Host code.
class FixupWorkspace {
 public:
  FixupWorkspace(int64_t parts, int sums, Stream stream)
      : memory_(parts * Fixup::vectors(sums) * sizeof(Vec<float>), stream) {}
  Fixup get() const {
    static std::atomic<uint64_t> launches = 0;
    return {memory_.as<Vec<float>>(), ++launches * 0x9E3779B97F4A7C15u};
  }

 private:
  const Workspace memory_;
};

GEMM_BUILD_NAMESPACE_END
