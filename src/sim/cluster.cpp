#include "sim/cluster.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/hopper.h"
#include "sim/shared_variables.h"
#include "sim/tracer.h"

namespace gemm::sim {

std::string Caller::thread_name() const { return block->scheduler.name(thread); }
std::string Caller::name() const { return fmt::format("{}: {}", thread_name(), line()); }

Caller caller(const char* what, std::source_location where) {
  const Block& block = current_block(what);
  return {&block, block.scheduler.thread(), what, where};
}

std::string Block::place_of(const void* p) const {
  if (shared.in_dynamic(p, 1))
    return fmt::format("dynamic shared memory + {}", shared.dynamic_offset(p));
  if (shared.contains(p, 1)) {
    const size_t at = static_cast<const char*>(p) - static_cast<const char*>(shared.statics());
    for (const SharedVariable& v : shared_variables())
      if (at + shared.tls_offset() >= v.begin && at + shared.tls_offset() < v.end)
        return fmt::format("{} + {}", v.name, at + shared.tls_offset() - v.begin);
  }
  const std::string matrix = tracer == nullptr ? "" : tracer->matrix_name(p);
  return fmt::format("{}memory at {}", matrix.empty() ? "" : matrix + "'s ", p);
}

void* Block::same_place(const Caller& caller, const void* p) const {
  const SharedMemory& theirs = caller.block->shared;
  if (theirs.in_dynamic(p, 1))
    return static_cast<char*>(shared.dynamic()) + theirs.dynamic_offset(p);
  if (caller.block != this || !shared.contains(p, 1))
    caller.fail("{} is not in {}shared memory", p, caller.block != this ? "dynamic " : "");
  return const_cast<void*>(p);
}

// ------------------------------------------------------------------------------------------------

namespace {

void check_registers(const Block& b) {
  for (size_t w = 0; w < b.registers.size(); ++w)
    if (const size_t first = w / 4 * 4; b.registers[w] != b.registers[first])
      fail(
          "setmaxnreg by a part of a warpgroup: {} registers in warp {}, {} in warp {} (0: no "
          "call)",
          b.registers[first], first, b.registers[w], w);
}

// What every thread runs.
void run_thread(void* p) {
  const auto& work = *static_cast<const Cluster::Work*>(p);
  work.body(work.context);
  const Block& block = *this_thread.block;
  block.stores.check_end(block.scheduler.thread());
  block.wgmma.check_end(block.scheduler.warp());
  if (this_thread.tracer != nullptr) this_thread.tracer->exit_thread();
}

}  // namespace

void runtime::setmaxnreg(int registers, Where where) {
  constexpr int ALL = 65536, MOST = 256, UNIT = 8;  // of an SM; of a thread; what they come in
  const Caller c = caller("setmaxnreg", where);
  Block& block = *this_thread.block;
  const int threads = block.scheduler.threads();
  std::vector<int>& by_warp = block.registers;
  by_warp.resize((threads + WARP - 1) / WARP);
  by_warp[c.thread / WARP] = registers;
  const int launched =
      std::min(ALL / threads / UNIT * UNIT, MOST) * static_cast<int>(by_warp.size());
  const int wanted = std::accumulate(by_warp.begin(), by_warp.end(), 0);
  if (wanted > launched && std::ranges::find(by_warp, 0) == by_warp.end())
    c.fail(
        "the block's warps want {} registers in all, and a launch gives them {} at most: they wait "
        "for ever",
        wanted * WARP, launched * WARP);
}

void Cluster::begin_launch() {
  for (const std::unique_ptr<Block>& block : blocks_) block->proxy.begin_launch();
}

void Cluster::start(const Work& work, int64_t first) {
  size_ = work.size;
  schedule_ = work.schedule;
  outside_ = work.outside;
  signal_waits_.clear();
  yields_ = false;
  while (static_cast<int>(blocks_.size()) < size_) blocks_.push_back(std::make_unique<Block>());
  std::vector<Block*> blocks;
  for (int rank = 0; rank < size_; ++rank) {
    Block& b = *blocks_[rank];
    b.cluster = this;
    b.rank = rank;
    b.index = first + rank;
    b.tracer = nullptr;
    b.tma_asked = b.tma_multicast = b.tma_delivered = 0;
    b.registers.clear();
    b.collectives.reset();
    b.copies.reset();
    b.shared.poison(work.smem);
    b.mbarriers.reset();
    b.named_barriers.reset();
    b.proxy.reset();
    b.stores.reset();
    b.wgmma.reset();
    b.scheduler.start(run_thread, const_cast<Work*>(&work), work.shape, *work.stopped);
    blocks.push_back(&b);
  }
  // As much as a megabyte, of all kernels: not again where blocks have left it as it was.
  if (!std::exchange(statics_fresh_, false)) blocks[0]->shared.poison_statics();
  loads_.reset();
  barrier_.reset(std::move(blocks));
}

// All blocks of a cluster run on one OS thread, and would share __shared__ variables.
void Cluster::check_statics() const {
  if (size_ > 1 && !blocks_[0]->shared.statics_untouched())
    fail("a __shared__ variable in a cluster of {} blocks; allowed there: dynamic_shared()", size_);
}

void Cluster::run(const Work& work, int64_t first, const std::function<void(Block&)>& begin,
                  const std::function<void(Block&)>& end) {
  start(work, first);
  int unfinished = size_;
  const auto step = [&](Block& b) {
    this_thread.block = &b;
    this_thread.block_idx = {static_cast<unsigned>(b.index), 0, 0};
    this_thread.tracer = b.tracer;
    b.scheduler.resume();
    if (!b.scheduler.finished()) return;
    if (unfinished == size_ || unfinished == 1) check_statics();  // the first to end, and the last
    --unfinished;
    loads_.check_end(b);
    b.wgmma.check_warpgroups((b.scheduler.threads() + WARP - 1) / WARP);
    check_registers(b);
    end(b);
  };
  int64_t running = first;
  try {
    for (int rank = 0; rank < size_; ++rank) {
      running = first + rank;
      begin(*blocks_[rank]);
    }
    while (unfinished > 0) {
      bool any = false;
      for (int rank = 0; rank < size_; ++rank) {
        Block& b = *blocks_[rank];
        if (!b.scheduler.can_run()) continue;
        running = b.index;
        step(b);
        any = true;
        if (yields_) {
          yields_ = false;
          outside_->yield();
        }
      }
      if (!any && unfinished > 0 && !barrier_.complete() && !wake_signalled() &&
          !loads_.land_next(schedule_ == AsyncSchedule::newest_first) && !wait_outside())
        fail_deadlock();
    }
  } catch (const std::exception& e) {
    const auto* failure = dynamic_cast<const Failure*>(&e);
    const int64_t index = failure != nullptr ? failure->block : running;
    const std::string what = e.what();
    for (int rank = 0; rank < size_; ++rank) {
      this_thread.block = blocks_[rank].get();
      blocks_[rank]->scheduler.abandon();
    }
    this_thread.block = nullptr;
    this_thread.tracer = nullptr;
    const std::string device = work.device < 0 ? "" : fmt::format("device {}, ", work.device);
    throw Failure(index, fmt::format("{}block {}: {}", device, index, what));
  }
  statics_fresh_ = size_ > 1;
  this_thread.block = nullptr;
  this_thread.tracer = nullptr;
}

bool Cluster::signalled() const {
  return std::ranges::any_of(signal_waits_, [](const SignalWait* w) { return w->holds(); });
}

bool Cluster::wake_signalled() {
  return std::erase_if(signal_waits_, [](const SignalWait* w) {
           if (w->holds()) w->block->scheduler.wake(w->thread);
           return w->holds();
         }) > 0;
}

bool Cluster::wait_outside() {
  if (signal_waits_.empty()) return false;
  outside_->park(*this);
  return true;
}

std::pair<std::string, int64_t> Cluster::who_waits() const {
  std::string all;
  int64_t first = -1;
  for (int rank = 0; rank < size_; ++rank) {
    const Block& b = *blocks_[rank];
    const std::string waiting = b.scheduler.who_waits();
    if (waiting.empty()) continue;
    all += first < 0 ? waiting : fmt::format("; in block {}, {}", b.index, waiting);
    if (first < 0) first = b.index;
  }
  return {all, first};
}

void Cluster::fail_deadlock() {
  check_statics();  // the blocks may have waited for what they wrote over each other's
  const auto [all, first] = who_waits();
  throw Failure(first, "deadlock: " + all);
}

Block& Cluster::peer(const Caller& caller, uint32_t rank) {
  if (rank >= static_cast<uint32_t>(size_)) caller.fail("block {} of a cluster of {}", rank, size_);
  Block& block = *blocks_[rank];
  if (block.scheduler.finished())
    caller.fail("block {} of the cluster has ended: a cluster barrier is missing before its end",
                rank);
  return block;
}

const Block* Cluster::owner(const void* p) const {
  for (int rank = 0; rank < size_; ++rank)
    if (blocks_[rank]->shared.in_dynamic(p, 1)) return blocks_[rank].get();
  return nullptr;
}

// ------------------------------------------------------------------------------------------------

int runtime::lane() { return current_block("elect.sync").scheduler.lane(); }

uint32_t runtime::cluster_rank() { return current_block("%cluster_ctarank").rank; }

uint32_t runtime::cluster_size() { return current_block("%cluster_nctarank").cluster->size(); }

void* runtime::map_shared(const void* p, uint32_t rank, Where where) {
  const Caller c = caller("mapa", where);
  return this_thread.block->cluster->peer(c, rank).same_place(c, p);
}

}  // namespace gemm::sim
