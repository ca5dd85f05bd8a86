#include "sim/async_copy.h"

#include <cstring>

#include "sim/block.h"
#include "sim/diagnosis.h"
#include "sim/tracer.h"

namespace gemm::sim {

void AsyncCopies::issue(int thread, const Copy& copy) {
  queues_[thread].copies.push_back(copy);
  ++count;
  bytes += copy.src_bytes;
}

void AsyncCopies::commit(int thread) {
  Queue& q = queues_[thread];
  q.groups.push_back(q.copies.size());
}

void AsyncCopies::wait(int thread, int pending) {
  Queue& q = queues_[thread];
  if (q.groups.size() <= static_cast<size_t>(pending)) return;
  const size_t done = q.groups.size() - pending, landing = q.groups[done - 1];
  for (size_t i = 0; i < landing; ++i) {
    const Copy& c = q.copies[i];
    std::memset(c.to, 0, c.bytes);
    if (c.src_bytes != 0) std::memcpy(c.to, c.from, c.src_bytes);
    if (this_thread.tracer != nullptr) this_thread.tracer->copy_landed(c.to, c.bytes);
  }
  q.copies.erase(q.copies.begin(), q.copies.begin() + landing);
  q.groups.erase(q.groups.begin(), q.groups.begin() + done);
  for (size_t& end : q.groups) end -= landing;
}

// ------------------------------------------------------------------------------------------------

void runtime::cp_async(void* shared, const void* global, int bytes, int src_bytes,
                       std::source_location where) {
  Block& block = current_block("cp.async");
  const auto bad = [&](std::string what) {
    fail("{}: cp.async ({}): {}", block.scheduler.name(block.scheduler.thread()), place(where),
         what);
  };
  const auto aligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; };
  if (bytes != 4 && bytes != 8 && bytes != 16)
    bad(fmt::format("{} bytes; allowed: 4, 8, 16", bytes));
  if (src_bytes < 0 || src_bytes > bytes)
    bad(fmt::format("reads {} bytes; allowed: 0 to {}", src_bytes, bytes));
  if (!aligned(shared)) bad(fmt::format("shared address {} is not {}-byte aligned", shared, bytes));
  if (!aligned(global)) bad(fmt::format("global address {} is not {}-byte aligned", global, bytes));
  if (!block.shared.contains(shared, bytes)) bad("the destination is not shared memory");
  if (this_thread.tracer != nullptr)
    this_thread.tracer->copy_issued(shared, global, bytes, src_bytes, GEMM_SIM_CALLER);
  block.copies.issue(block.scheduler.thread(), {shared, global, bytes, src_bytes});
}

void runtime::cp_async_commit() {
  Block& block = current_block("cp.async.commit_group");
  block.copies.commit(block.scheduler.thread());
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->commit(tracer->me(), EventKind::cp_async_commit,
                               TimelineRecorder::Site(GEMM_SIM_CALLER));
}

void runtime::cp_async_wait(int pending) {
  Block& block = current_block("cp.async.wait_group");
  block.copies.wait(block.scheduler.thread(), pending);
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->wait_group(tracer->me(), EventKind::cp_async_wait,
                                   TimelineRecorder::Site(GEMM_SIM_CALLER), pending);
}

}  // namespace gemm::sim
