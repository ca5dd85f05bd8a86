#include "sim/bulk_copy.h"

#include <algorithm>
#include <cstring>

#include "sim/cluster.h"
#include "sim/hopper.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace {

constexpr size_t CHUNK = 16;

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto p = reinterpret_cast<uintptr_t>(a), q = reinterpret_cast<uintptr_t>(b);
  return p < q + b_bytes && q < p + a_bytes;
}

// device/swizzle.cuh's, on an address: shared memory here lies at a multiple of 1024, too.
char* swizzled(const char* p, int span) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return reinterpret_cast<char*>(address ^ (address >> 3 & (span - 16)));
}

bool aligned(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

// What loads and stores have in common.
void check(const BulkCopy& copy, const void* shared, size_t alignment) {
  const Block& block = *this_thread.block;
  if (block.pdl && !block.waited[copy.caller.thread])
    copy.caller.fail("before this thread's grid_dependency_wait: the kernel before may still run");
  if (copy.map.matrices != 0)
    copy.caller.fail("the tensor map has rank 3: the instruction names no matrix of the batch");
  if (copy.map.rows == 0 || copy.map.cols == 0)
    copy.caller.fail("the tensor map is of a matrix without elements");
  if (int64_t{copy.col} * copy.map.element % CHUNK != 0)
    copy.caller.fail(
        "column {} is {} bytes into a row; allowed: multiples of {} (else an illegal instruction "
        "on "
        "an H200)",
        copy.col, int64_t{copy.col} * copy.map.element, CHUNK);
  if (!aligned(shared, alignment))
    copy.caller.fail("shared address {} is not {}-byte aligned", shared, alignment);
  if (!block.shared.in_dynamic(shared, copy.bytes()))
    copy.caller.fail("{} bytes at {} are not in dynamic shared memory", copy.bytes(), shared);
}

// Tells the running thread's timeline of a copy, if there is one; returns when it ends.
int64_t record(const BulkCopy& copy, EventKind kind) {
  Tracer* const tracer = this_thread.tracer;
  if (tracer == nullptr || tracer->timeline() == nullptr) return 0;
  return tracer->timeline()->issue(tracer->me(), kind, {copy.caller.where, copy.pc},
                                   static_cast<int64_t>(copy.bytes()),
                                   tracer->matrix_name(copy.map.base), copy.row, copy.col);
}

void issue_load(BulkCopy copy, void* shared, uint64_t* barrier, uint16_t blocks, size_t alignment) {
  const Caller& c = copy.caller;
  Block& self = *this_thread.block;
  Cluster& cluster = *self.cluster;
  check(copy, shared, alignment);
  if (blocks == 0)
    blocks = static_cast<uint16_t>(1 << self.rank);
  else
    self.tma_multicast += copy.bytes();
  copy.landed = record(copy, EventKind::tma_load);
  BulkLoads::Load load{copy, {}};
  for (int rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    Block& target = cluster.peer(c, rank);
    char* const to = static_cast<char*>(target.same_place(c, shared));
    auto* const bar = static_cast<uint64_t*>(target.same_place(c, barrier));
    if (!target.mbarriers.at(c, bar).fenced)
      c.fail("no fence.mbarrier_init or fence.proxy.async since its mbarrier was initialised");
    cluster.loads().check_landed(c, target, to, copy.bytes());
    target.stores.check_read(c, to, copy.bytes());
    target.wgmma.check_read(c, to, copy.bytes());
    load.targets.push_back({&target, to, bar});
    if (this_thread.tracer != nullptr && &target == &self)
      this_thread.tracer->bulk_issued(to, copy.bytes(), copy.pc);
  }
  self.tma_asked += copy.bytes();
  self.tma_delivered += copy.bytes() * load.targets.size();
  if (this_thread.tracer != nullptr) copy.trace(AccessKind::read);
  cluster.loads().issue(std::move(load), cluster.schedule() == AsyncSchedule::eager_copies);
}

}  // namespace

template <class F>
void BulkCopy::inside(int r, int64_t cols, F&& f) const {
  const int64_t y = row + r, first = std::max<int64_t>(col, 0),
                last = std::min<int64_t>(col + map.box_cols, cols);
  if (y < 0 || y >= map.rows || first >= last) return;
  f(static_cast<char*>(map.base) + y * map.row_bytes + first * map.element,
    (first - col) * map.element, (last - first) * map.element);
}

void BulkCopy::load(char* shared) const {
  std::vector<char> line(row_bytes());
  for (int r = 0; r < map.box_rows; ++r) {
    std::fill(line.begin(), line.end(), 0);
    inside(r, map.cols, [&](const char* global, size_t at, size_t bytes) {
      std::memcpy(line.data() + at, global, bytes);
    });
    for (size_t c = 0; c < line.size(); c += CHUNK)
      std::memcpy(swizzled(shared + r * line.size() + c, map.span), line.data() + c, CHUNK);
  }
}

void BulkCopy::store(const char* shared) const {
  std::vector<char> line(row_bytes());
  for (int r = 0; r < map.box_rows; ++r) {
    for (size_t c = 0; c < line.size(); c += CHUNK)
      std::memcpy(line.data() + c, swizzled(shared + r * line.size() + c, map.span), CHUNK);
    inside(r, stored_cols(), [&](char* global, size_t at, size_t bytes) {
      std::memcpy(global, line.data() + at, bytes);
    });
  }
}

// A store writes whole chunks of 16 bytes: where the matrix ends within one, the tile's bytes to
// its end. (Seen on an H200: 100 columns of halves in rows 104 apart, and columns 100 to 103
// written.)
int64_t BulkCopy::stored_cols() const {
  const int64_t bytes = map.cols * map.element;
  return (bytes + CHUNK - 1) / CHUNK * CHUNK / map.element;
}

void BulkCopy::trace(AccessKind kind) const {
  const int64_t cols = kind == AccessKind::read ? map.cols : stored_cols();
  for (int r = 0; r < map.box_rows; ++r)
    inside(r, cols, [&](const char* global, size_t, size_t bytes) {
      this_thread.tracer->bulk_global(global, bytes, kind, pc);
    });
}

// ----------------------------------------------------------------------------------------- loads

void BulkLoads::issue(Load load, bool at_once) {
  if (at_once)
    land(load);
  else
    in_flight_.push_back(std::move(load));
}

bool BulkLoads::land_next(bool newest) {
  if (in_flight_.empty()) return false;
  const auto next = newest ? std::prev(in_flight_.end()) : in_flight_.begin();
  const Load load = std::move(*next);
  in_flight_.erase(next);
  land(load);
  return true;
}

void BulkLoads::land(const Load& load) {
  for (const Target& t : load.targets) {
    load.copy.load(t.shared);
    t.block->proxy.wrote(t.block->shared, t.shared, load.copy.bytes());
    if (Tracer* const tracer = t.block->tracer) {
      if (t.block == load.copy.caller.block)
        tracer->bulk_landed(load.copy.caller.thread, t.shared, load.copy.bytes(), t.barrier);
      else
        tracer->written_from_outside(t.shared, load.copy.bytes(), load.copy.pc);
      if (tracer->timeline() != nullptr) tracer->timeline()->arrive_at(t.barrier, load.copy.landed);
    }
    complete_bytes(load.copy.caller, *t.block, t.barrier, load.copy.bytes());
  }
}

bool BulkLoads::writes(const Block& block, const void* p, size_t bytes) const {
  for (const Load& load : in_flight_)
    for (const Target& t : load.targets)
      if (t.block == &block && overlap(t.shared, load.copy.bytes(), p, bytes)) return true;
  return false;
}

void BulkLoads::check_landed(const Caller& caller, const Block& block, const void* p,
                             size_t bytes) const {
  for (const Load& load : in_flight_)
    for (const Target& t : load.targets)
      if (t.block == &block && overlap(t.shared, load.copy.bytes(), p, bytes))
        caller.fail("{} is being written by {} of {}: nobody has waited for its mbarrier",
                    block.place_of(p), load.copy.caller.line(), load.copy.caller.thread_name());
}

void BulkLoads::check_end(const Block& block) const {
  for (const Load& load : in_flight_)
    for (const Target& t : load.targets)
      if (t.block == &block)
        load.copy.caller.fail("the block ends before this copy to its shared memory has come");
}

// ---------------------------------------------------------------------------------------- stores

void BulkStores::issue(const BulkCopy& copy, const char* shared, bool at_once) {
  if (at_once) copy.store(shared);
  Queue& q = queues_[copy.caller.thread];
  q.stores.push_back({copy, shared, at_once});
  ++q.open;
}

void BulkStores::commit(int thread) {
  Queue& q = queues_[thread];
  q.groups.push_back(q.open);
  q.open = 0;
}

void BulkStores::wait(int thread, int pending) {
  Queue& q = queues_[thread];
  for (; q.groups.size() > static_cast<size_t>(pending); q.groups.pop_front())
    for (size_t i = 0; i < q.groups.front(); ++i) {
      const Store& s = q.stores.front();
      if (!s.done) s.copy.store(s.shared);
      if (this_thread.tracer != nullptr)
        this_thread.tracer->store_has_read(s.shared, s.copy.bytes(), s.copy.pc);
      q.stores.pop_front();
    }
}

void BulkStores::check_read(const Caller& caller, const void* p, size_t bytes) const {
  for (const auto& [thread, queue] : queues_)
    for (const Store& s : queue.stores)
      if (overlap(s.shared, s.copy.bytes(), p, bytes))
        caller.fail("overwrites {}, which {} of {} may still be reading: its wait has not returned",
                    caller.block->place_of(p), s.copy.caller.line(), s.copy.caller.thread_name());
}

void BulkStores::check_end(int thread) const {
  const auto it = queues_.find(thread);
  if (it != queues_.end() && !it->second.stores.empty())
    it->second.stores.front().copy.caller.fail(
        "the thread ends before a wait for this store: its shared memory may be gone before it is "
        "read");
}

// ------------------------------------------------------------------------------------------------

void runtime::tma_load(void* shared, const TensorMap& map, int row, int col, uint64_t* barrier,
                       uint16_t blocks, Where where) {
  issue_load({caller("cp.async.bulk.tensor load", where), map, row, col, GEMM_SIM_CALLER}, shared,
             barrier, blocks, 128);
}

void runtime::bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier,
                        Where where) {
  const Caller c = caller("cp.async.bulk load", where);
  if (bytes == 0 || bytes % CHUNK != 0 || !aligned(global, CHUNK))
    c.fail("{} bytes from {}; allowed: multiples of {}", bytes, global, CHUNK);
  const TensorMap row{const_cast<void*>(global), 1, bytes, bytes, 1, 1, static_cast<int>(bytes)};
  issue_load({c, row, 0, 0, GEMM_SIM_CALLER}, shared, barrier, 0, CHUNK);
}

void runtime::tma_store(const TensorMap& map, int row, int col, const void* shared, Where where) {
  const BulkCopy copy{caller("cp.async.bulk.tensor store", where), map, row, col, GEMM_SIM_CALLER};
  Block& block = *this_thread.block;
  check(copy, shared, 128);
  if (row < 0 || col < 0)
    copy.caller.fail(
        "to row {}, column {}; allowed: from 0 on (else an illegal instruction on an H200)", row,
        col);
  block.cluster->loads().check_landed(copy.caller, block, shared, copy.bytes());
  block.proxy.check_read(copy.caller, block.shared, shared, copy.bytes());
  record(copy, EventKind::tma_store);
  if (this_thread.tracer != nullptr) {
    this_thread.tracer->store_issued(shared, copy.bytes(), copy.pc);
    copy.trace(AccessKind::write);
  }
  block.stores.issue(copy, static_cast<const char*>(shared),
                     block.cluster->schedule() == AsyncSchedule::eager_copies);
}

void runtime::bulk_commit() {
  Block& block = current_block("cp.async.bulk.commit_group");
  block.stores.commit(block.scheduler.thread());
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr) tracer->bulk_committed();
  if (tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->commit(tracer->me(), EventKind::tma_commit,
                               TimelineRecorder::Site(GEMM_SIM_CALLER));
}

void runtime::bulk_wait(int pending, bool complete) {
  Block& block = current_block("cp.async.bulk.wait_group");
  block.stores.wait(block.scheduler.thread(), pending);
  Tracer* const tracer = this_thread.tracer;
  if (tracer != nullptr && complete) tracer->bulk_complete(pending);
  if (tracer != nullptr && tracer->timeline() != nullptr)
    tracer->timeline()->wait_group(tracer->me(), EventKind::tma_wait,
                                   TimelineRecorder::Site(GEMM_SIM_CALLER), pending);
}

}  // namespace gemm::sim
