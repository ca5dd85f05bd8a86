#include "sim/async_proxy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sim/block.h"
#include "sim/hopper.h"

namespace gemm::sim {

// As the block found it.
void AsyncProxy::begin(const SharedMemory& shared) {
  if (seen_.size() == shared.dynamic_size()) return;
  seen_.assign(shared.dynamic_size(), '\xff');
  landed_.assign(shared.dynamic_size() / 16 + 1, false);
}

// A copy for each of 32 lanes takes a third of a kernel's time. Where all lanes of a warp have once
// called a fence one after the other, each with a copy of its own, lanes wait there for those after
// them: then one copy is what each of them would have made, for none has gone on. Not before that:
// stores of lanes that have no fence would be in the copy.
void AsyncProxy::fence(const SharedMemory& shared, Scheduler& scheduler,
                       std::source_location where) {
  begin(shared);
  last_fence_ = where;
  const auto known =
      std::ranges::find_if(fences_, [&](const Fence& f) { return same_place(f.where, where); });
  const int warp = scheduler.warp();
  if (known == fences_.end()) {
    fences_.push_back({where, warp, 1u << scheduler.lane(), false});
  } else if (known->by_all) {
    const int64_t before = copies_;
    scheduler.yield_lane();
    if (copies_ != before) return;
  } else if (known->warp == warp) {
    const uint32_t lane = 1u << scheduler.lane();
    known->lanes = (known->lanes & lane) != 0 ? lane : known->lanes | lane;
    known->by_all = known->lanes == scheduler.lanes_of(warp);
  }
  std::memcpy(seen_.data(), shared.dynamic(), seen_.size());
  ++copies_;
}

void AsyncProxy::wrote(const SharedMemory& shared, const void* p, size_t bytes) {
  begin(shared);
  const size_t offset = shared.dynamic_offset(p);
  std::memcpy(seen_.data() + offset, p, bytes);
  std::fill_n(landed_.begin() + offset / 16, bytes / 16, true);
}

void AsyncProxy::check_read(const Caller& caller, const SharedMemory& shared, const void* p,
                            size_t bytes) {
  begin(shared);
  const size_t offset = shared.dynamic_offset(p);
  if (std::memcmp(seen_.data() + offset, p, bytes) == 0) return;
  const char* now = static_cast<const char*>(p);
  const size_t first = std::mismatch(now, now + bytes, seen_.data() + offset).first - now;
  caller.fail(
      "reads dynamic shared memory + {} by the async proxy, but a thread has written it since {}: "
      "fence.proxy.async is missing",
      offset + first,
      last_fence_ ? fmt::format("the last fence.proxy.async ({})", place(*last_fence_))
                  : "the block began, and nobody has called fence.proxy.async");
}

void AsyncProxy::check_chunks(const Caller& caller, const SharedMemory& shared,
                              std::span<const char* const> chunks) {
  begin(shared);
  const char* const first = static_cast<const char*>(shared.dynamic());
  for (const char* const p : chunks) {
    const size_t offset = p - first;
    uint64_t now[2], seen[2];
    std::memcpy(now, p, sizeof now);
    std::memcpy(seen, seen_.data() + offset, sizeof seen);
    if (now[0] != seen[0] || now[1] != seen[1]) check_read(caller, shared, p, sizeof now);
    if ((now[0] & now[1]) == ~uint64_t{0} && !landed_[offset / 16])
      caller.fail(
          "reads dynamic shared memory + {}, which nobody has written yet: is a wait missing?",
          offset);
  }
}

// ------------------------------------------------------------------------------------------------

void runtime::fence_proxy_async(Where where) {
  Block& block = current_block("fence.proxy.async");
  block.proxy.fence(block.shared, block.scheduler, where);
  block.mbarriers.fence();  // it makes their initialisation visible as well
}

}  // namespace gemm::sim
