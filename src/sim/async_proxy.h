// The rule for fence.proxy.async: TMA and wgmma read shared memory by the async proxy, which need
// not see what ordinary ("generic") stores wrote before the last such fence. The plain build does
// not see stores, so this keeps dynamic shared memory as the async proxy may see it: as it was at
// the last fence, with what TMA has written since. Where that differs from what is there, a fence
// is missing. (A store of the value that was there before goes unnoticed, and the fence of one
// thread counts for all: it may stand behind the barrier, too.)
#pragma once

#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "sim/caller.h"
#include "sim/scheduler.h"
#include "sim/shared_memory.h"

namespace gemm::sim {

class AsyncProxy {
 public:
  void reset() {
    seen_.clear();
    landed_.clear();
    last_fence_.reset();
  }
  // A kernel begins: what was learnt of another one's fences is forgotten.
  void begin_launch() { fences_.clear(); }
  // The running thread executes fence.proxy.async.
  void fence(const SharedMemory& shared, Scheduler& scheduler, std::source_location where);
  // TMA has written dynamic shared memory.
  void wrote(const SharedMemory& shared, const void* p, size_t bytes);
  // Throws when the proxy may see something else there than there is.
  void check_read(const Caller& caller, const SharedMemory& shared, const void* p, size_t bytes);
  // Throws for a chunk of 16 bytes, too, that nobody has written since the block began.
  // As far as can be told: it is still what fresh shared memory is filled with, and was not written
  // by TMA.
  void check_chunks(const Caller& caller, const SharedMemory& shared,
                    std::span<const char* const> chunks);

 private:
  void begin(const SharedMemory& shared);

  std::vector<char> seen_;    // empty: nothing was fenced or copied yet
  std::vector<bool> landed_;  // by 16 bytes: TMA has written them
  std::optional<std::source_location> last_fence_;
  int64_t copies_ = 0;  // of shared memory, so far

  // A fence of the kernel, and which lanes of the warp that came first have called it in turn.
  struct Fence {
    std::source_location where;
    int warp;
    uint32_t lanes;
    bool by_all;  // the lanes of a warp
  };
  std::vector<Fence> fences_;
};

}  // namespace gemm::sim
