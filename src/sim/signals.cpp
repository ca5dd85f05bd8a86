// Flags in global memory, between kernels, devices and copies: device/ptx/system.cuh.
#include <atomic>

#include "sim/cluster.h"
#include "sim/diagnosis.h"
#include "sim/hopper.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace {

// What a wait lacks.
std::string missing(const void* object) {
  const auto& w = *static_cast<const SignalWait*>(object);
  return fmt::format("for {} to be at least {}, which is {}",
                     w.block->cluster->outside()->name_of(w.flag), w.wanted, w.now());
}

// Checks the flag that the caller names.
void check(const Caller& caller, const uint32_t* flag) {
  if (reinterpret_cast<uintptr_t>(flag) % sizeof *flag != 0)
    caller.fail("the flag at {} is not 4-byte aligned", static_cast<const void*>(flag));
}

// Who waits for the flag may go on at once: so it runs before what should have come first.
void raised(const Caller& caller) {
  Cluster& cluster = *caller.block->cluster;
  if (cluster.outside() == nullptr || cluster.schedule() != AsyncSchedule::eager_copies ||
      !cluster.outside()->others_can_go_on())
    return;
  cluster.yield_to_others();
  this_thread.block->scheduler.yield_block();
}

}  // namespace

uint32_t SignalWait::now() const {
  return std::atomic_ref(*const_cast<uint32_t*>(flag)).load(std::memory_order_acquire);
}

bool SignalWait::holds() const { return static_cast<int32_t>(now() - wanted) >= 0; }

void await(const Caller& caller, SignalWait wait) {
  if (wait.holds()) return;
  Block& block = *this_thread.block;
  Cluster& cluster = *block.cluster;
  if (cluster.outside() == nullptr)
    caller.fail(
        "waits for other kernels or copies, which only run beside launches on a stream of "
        "sim::Devices");
  wait.block = &block;
  wait.thread = caller.thread;
  cluster.signal_waits().push_back(&wait);
  block.scheduler.suspend({caller.what, caller.where, 0, missing, &wait});
}

// ------------------------------------------------------------------------------------------------

void runtime::signal_add(uint32_t* flag, uint32_t value, Where where) {
  const Caller c = caller("signal_add", where);
  check(c, flag);
  const std::atomic_ref now(*flag);
  if (this_thread.tracer != nullptr)
    this_thread.tracer->signal_release(flag, now, now + value, true, GEMM_SIM_CALLER);
  now.fetch_add(value, std::memory_order_release);
  raised(c);
}

void runtime::signal_set(uint32_t* flag, uint32_t value, Where where) {
  const Caller c = caller("signal_set", where);
  check(c, flag);
  const std::atomic_ref now(*flag);
  if (this_thread.tracer != nullptr)
    this_thread.tracer->signal_release(flag, now, value, false, GEMM_SIM_CALLER);
  now.store(value, std::memory_order_release);
  raised(c);
}

void runtime::signal_wait(const uint32_t* flag, uint32_t at_least, Where where) {
  const Caller c = caller("signal_wait", where);
  check(c, flag);
  const uintptr_t pc = GEMM_SIM_CALLER;
  await(c, {flag, at_least});
  if (this_thread.tracer != nullptr) this_thread.tracer->signal_acquire(flag, at_least, pc);
}

void runtime::fence_proxy_async_global() {
  current_block("fence.proxy.async.global");
  if (this_thread.tracer != nullptr) this_thread.tracer->proxy_fence();
}

}  // namespace gemm::sim
