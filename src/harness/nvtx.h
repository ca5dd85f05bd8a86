// A named range on a profiler's timeline (NVTX), in the domain "gemm_ladder".
#pragma once

#include <string>

namespace gemm {

// Open from construction to destruction; ranges of one thread nest. Without a profiler it costs
// nanoseconds, without NVTX's headers (they come with CUDA) nothing. scripts/timeline.sh shows them.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace gemm
