#include "sim/thread_barriers.h"

#include "sim/cluster.h"
#include "sim/hopper.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace {

std::string missing_at_named(const void* object) {
  const auto& b = *static_cast<const NamedBarriers::Barrier*>(object);
  return fmt::format("for named barrier {}, to which {} of {} threads have come", b.id, b.arrived,
                     b.threads);
}

std::string missing_at_cluster(const void* object) {
  return fmt::format("for the cluster's barrier, to which {} threads have not come",
                     static_cast<const ClusterBarrier*>(object)->missing());
}

}  // namespace

void NamedBarriers::arrive(const Caller& caller, Scheduler& scheduler, int id, int threads,
                           bool waits) {
  if (id < 1 || id >= COUNT)
    caller.fail("barrier {}; allowed: 1 to {} (0 is __syncthreads)", id, COUNT - 1);
  if (threads < WARP || threads > MAX_THREADS || threads % WARP != 0)
    caller.fail("barrier {} of {} threads; allowed: multiples of {} up to {}", id, threads, WARP,
                MAX_THREADS);
  Barrier& b = barriers_[id];
  if (b.arrived != 0 && b.threads != threads)
    caller.fail("barrier {} of {} threads, at which {} have come for one of {}", id, threads,
                b.arrived, b.threads);
  Tracer* const tracer = this_thread.tracer;
  TimelineRecorder* const timeline = tracer == nullptr ? nullptr : tracer->timeline();
  int event = -1;
  if (tracer != nullptr) tracer->sync_release(&b);
  if (timeline != nullptr) {
    timeline->declare(&b,
                      {TimelineBarrier::Kind::named, caller.block->rank, id, threads, false, {}});
    if (waits) {
      event = timeline->wait(tracer->me(), EventKind::named_sync, caller.where, &b,
                             timeline->phases(&b));
      timeline->arrive_at(&b, timeline->begin_of(event) + 1);
    } else {
      timeline->arrive(tracer->me(), EventKind::named_arrive, caller.where, &b, 0);
    }
  }
  b.id = id;
  b.threads = threads;
  if (++b.arrived == threads) {
    if (tracer != nullptr) tracer->sync_complete(&b);
    if (timeline != nullptr) timeline->complete(&b);
    b.arrived = 0;
    for (const int thread : b.waiters) scheduler.wake(thread);
    b.waiters.clear();
  } else if (waits) {
    b.waiters.push_back(caller.thread);
    scheduler.check_stopped();
    scheduler.suspend({caller.what, caller.where, 0, missing_at_named, &b});
  }
  if (waits && tracer != nullptr) tracer->sync_acquire(&b);
  if (event >= 0) timeline->wait_ends(event);
}

void ClusterBarrier::reset(std::vector<Block*> blocks) {
  blocks_ = std::move(blocks);
  states_.resize(blocks_.size());
  for (size_t r = 0; r < states_.size(); ++r)
    states_[r].assign(blocks_[r]->scheduler.threads(), State::outside);
  arrived_ = 0;
  waiters_.clear();
}

void ClusterBarrier::arrive(const Caller& caller, int rank) {
  State& state = states_[rank][caller.thread];
  if (state != State::outside) caller.fail("a second arrival without a wait in between");
  state = State::arrived;
  ++arrived_;
  if (Tracer* const tracer = this_thread.tracer) {
    tracer->sync_release(this);
    if (TimelineRecorder* const timeline = tracer->timeline()) {
      const auto threads = static_cast<int64_t>(states_.size() * states_[rank].size());
      timeline->declare(this, {TimelineBarrier::Kind::cluster, -1, 0, threads, false, {}});
      timeline->arrive(tracer->me(), EventKind::cluster_arrive, caller.where, this, 0);
    }
  }
  // Which block goes on first is for the schedules to vary, too.
  if (complete() && this_thread.block->cluster->schedule() == AsyncSchedule::eager_copies)
    blocks_[rank]->scheduler.yield_block();
}

void ClusterBarrier::wait(const Caller& caller, int rank) {
  State& state = states_[rank][caller.thread];
  if (state == State::outside) caller.fail("a wait without an arrival");
  Tracer* const tracer = this_thread.tracer;
  TimelineRecorder* const timeline = tracer == nullptr ? nullptr : tracer->timeline();
  const int64_t ahead = state == State::arrived ? 0 : 1;  // phases that have completed since
  const int event = timeline == nullptr
                        ? -1
                        : timeline->wait(tracer->me(), EventKind::cluster_wait, caller.where, this,
                                         timeline->phases(this) - ahead);
  if (state == State::arrived) {
    waiters_.push_back({rank, caller.thread});
    blocks_[rank]->scheduler.check_stopped();
    blocks_[rank]->scheduler.suspend({caller.what, caller.where, 0, missing_at_cluster, this});
  }
  state = State::outside;
  if (tracer != nullptr) tracer->sync_acquire(this);
  if (event >= 0) timeline->wait_ends(event);
}

int ClusterBarrier::missing() const {
  int count = 0;
  for (size_t r = 0; r < states_.size(); ++r)
    for (size_t t = 0; t < states_[r].size(); ++t)
      count +=
          states_[r][t] != State::arrived && !blocks_[r]->scheduler.exited(static_cast<int>(t));
  return count;
}

bool ClusterBarrier::complete() {
  int alive = 0;
  for (const Block* b : blocks_) alive += b->scheduler.alive();
  if (arrived_ == 0 || arrived_ < alive || missing() != 0) return false;
  for (auto& block : states_)
    for (State& state : block)
      if (state == State::arrived) state = State::passed;
  arrived_ = 0;
  std::vector<Tracer*> tracers;
  for (Block* const b : blocks_)
    if (b->tracer != nullptr) tracers.push_back(b->tracer);
  for (Tracer* const t : tracers) t->sync_complete(this);
  Tracer::meet(tracers);
  if (blocks_[0]->tracer != nullptr && blocks_[0]->tracer->timeline() != nullptr)
    blocks_[0]->tracer->timeline()->complete(this);
  for (const Waiter& w : waiters_) blocks_[w.rank]->scheduler.wake(w.thread);
  waiters_.clear();
  return true;
}

// ------------------------------------------------------------------------------------------------

void runtime::named_barrier(int id, int threads, bool waits, Where where) {
  const Caller c = caller(waits ? "bar.sync" : "bar.arrive", where);
  Block& block = *this_thread.block;
  block.named_barriers.arrive(c, block.scheduler, id, threads, waits);
}

void runtime::cluster_arrive(Where where) {
  const Caller c = caller("barrier.cluster.arrive", where);
  this_thread.block->cluster->barrier().arrive(c, this_thread.block->rank);
}

void runtime::cluster_wait(Where where) {
  const Caller c = caller("barrier.cluster.wait", where);
  this_thread.block->cluster->barrier().wait(c, this_thread.block->rank);
}

}  // namespace gemm::sim
