#include "sim/mbarrier.h"

#include "sim/cluster.h"
#include "sim/diagnosis.h"
#include "sim/hopper.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace {

using Mbarrier = Mbarriers::Mbarrier;

constexpr uint64_t MARK = 0x7265697272616d62;  // what lies in memory
constexpr uint32_t MAX_COUNT = (1 << 20) - 1;  // PTX ISA, "mbarrier: supported operations"

std::string name(const Mbarrier& m) {
  return fmt::format("the mbarrier at {} (initialised at {})", m.block->place_of(m.address),
                     place(m.made));
}

// What a wait for the phase lacks.
std::string missing(const void* object) {
  const auto& m = *static_cast<const Mbarrier*>(object);
  std::string lacks;
  if (m.pending > 0) lacks = fmt::format("{} of {} arrivals", m.pending, m.count);
  if (m.bytes > 0)
    lacks += fmt::format("{}{} bytes of those announced", lacks.empty() ? "" : " and ", m.bytes);
  return fmt::format("for phase {} (parity {}) of {}, which lacks {}", m.phase, m.phase & 1,
                     name(m), lacks);
}

// Ends the phase when nothing is missing. Returns a thread that this woke, or -1.
int advance(Block& block, Mbarrier& m) {
  if (m.pending != 0 || m.bytes != 0) return -1;
  if (block.tracer != nullptr) {
    block.tracer->sync_complete(m.address);
    if (block.tracer->timeline() != nullptr) block.tracer->timeline()->complete(m.address);
  }
  ++m.phase;
  m.pending = m.count;
  const int woken = m.waiters.empty() ? -1 : m.waiters.front();
  for (const int thread : m.waiters) block.scheduler.wake(thread);
  m.waiters.clear();
  return woken;
}

// The running thread arrives at a barrier of its own block or of another one of its cluster.
void arrive(const Caller& caller, Block& target, uint64_t* barrier, uint32_t bytes) {
  Block& self = *this_thread.block;
  Mbarrier& m = target.mbarriers.at(caller, barrier);
  if (&target != &self && !m.fenced)
    caller.fail("no fence.mbarrier_init since {} was initialised", name(m));
  if (m.pending == 0)
    caller.fail("all {} arrivals of phase {} at {} have been made, and {} bytes are missing",
                m.count, m.phase, name(m), m.bytes);
  if (this_thread.tracer != nullptr && &target == &self) {  // clocks are of one block's threads
    this_thread.tracer->mbarrier_use(barrier, caller.where);
    this_thread.tracer->sync_release(barrier);
  }
  if (this_thread.tracer != nullptr && &target != &self)
    Tracer::meet({this_thread.tracer, target.tracer});
  if (this_thread.tracer != nullptr && this_thread.tracer->timeline() != nullptr)
    this_thread.tracer->timeline()->arrive(this_thread.tracer->me(), EventKind::mbarrier_arrive,
                                           caller.where, barrier, bytes);
  m.bytes += bytes;
  --m.pending;
  const int woken = advance(target, m);
  // Copies that come early: the producer that waits for this buffer goes first, and overwrites it
  // while the consumer still reads if the consumer has released it too early.
  if (woken < 0 || self.cluster->schedule() != AsyncSchedule::eager_copies) return;
  if (&target == &self)
    self.scheduler.yield_to(woken);
  else
    self.scheduler.yield_block();
}

}  // namespace

void Mbarriers::init(const Caller& caller, uint64_t* address, uint32_t count) {
  if (reinterpret_cast<uintptr_t>(address) % 8 != 0 || !caller.block->shared.contains(address, 8))
    caller.fail("{} is not 8 aligned bytes of shared memory", static_cast<const void*>(address));
  if (count < 1 || count > MAX_COUNT)
    caller.fail("{} arrivals; allowed: 1 to {}", count, MAX_COUNT);
  const auto [it, fresh] = all_.try_emplace(address);
  Mbarrier& m = it->second;
  if (!fresh) caller.fail("{} is in use", name(m));
  m.block = caller.block;
  m.address = address;
  m.made = caller.where;
  m.count = m.pending = count;
  *address = MARK;
  if (caller.block->tracer != nullptr) caller.block->tracer->mbarrier_init(address, caller.where);
  if (caller.block->tracer == nullptr || caller.block->tracer->timeline() == nullptr) return;
  caller.block->tracer->timeline()->declare(
      address, {TimelineBarrier::Kind::mbarrier,
                caller.block->rank,
                caller.block->shared.in_dynamic(address, 8)
                    ? static_cast<int64_t>(caller.block->shared.dynamic_offset(address))
                    : -1,
                count,
                false,
                {}});
}

Mbarrier& Mbarriers::at(const Caller& caller, const uint64_t* address) {
  const auto it = all_.find(address);
  if (it == all_.end())
    caller.fail("there is no initialised mbarrier at {}", static_cast<const void*>(address));
  if (*address != MARK) caller.fail("{} has been overwritten", name(it->second));
  return it->second;
}

void complete_bytes(const Caller& caller, Block& block, const uint64_t* barrier, int64_t bytes) {
  Mbarrier& m = block.mbarriers.at(caller, barrier);
  m.bytes -= bytes;
  advance(block, m);
}

// ------------------------------------------------------------------------------------------------

void runtime::mbarrier_init(uint64_t* barrier, uint32_t count, Where where) {
  const Caller c = caller("mbarrier.init", where);
  this_thread.block->mbarriers.init(c, barrier, count);
}

void runtime::fence_mbarrier_init() { current_block("fence.mbarrier_init").mbarriers.fence(); }

void runtime::mbarrier_arrive(uint64_t* barrier, uint32_t bytes, Where where) {
  const Caller c = caller("mbarrier.arrive", where);
  arrive(c, *this_thread.block, barrier, bytes);
}

void runtime::mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank, Where where) {
  const Caller c = caller("mbarrier.arrive", where);
  Block& target = this_thread.block->cluster->peer(c, rank);
  arrive(c, target, static_cast<uint64_t*>(target.same_place(c, barrier)), 0);
}

void runtime::mbarrier_wait(uint64_t* barrier, uint32_t parity, Where where) {
  const Caller c = caller("mbarrier.try_wait", where);
  Block& block = *this_thread.block;
  Mbarrier& m = block.mbarriers.at(c, barrier);
  const bool waits = (m.phase & 1) == (parity & 1);
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr) tracer->mbarrier_use(barrier, where);
  TimelineRecorder* const timeline = tracer == nullptr ? nullptr : tracer->timeline();
  const int event = timeline == nullptr
                        ? -1
                        : timeline->wait(tracer->me(), EventKind::mbarrier_wait, where, barrier,
                                         waits ? m.phase : m.phase - 1);
  if (waits) {
    m.waiters.push_back(c.thread);
    block.scheduler.check_stopped();
    block.scheduler.suspend({c.what, where, 0, missing, &m});
  }
  if (tracer != nullptr) tracer->sync_acquire(barrier);
  if (event >= 0) timeline->wait_ends(event);
}

}  // namespace gemm::sim
