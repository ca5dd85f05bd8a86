// cp.async.bulk: TMA's copies between global and shared memory. With the lazy schedule a load lands
// when no thread can go on without it, and a store reads at the wait for it; with the eager one
// both happen at once. Whatever the schedule, a load is in flight until it has landed, and a store
// until its wait: to touch their memory before then is an error that is found when other copies or
// wgmma do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "sim/caller.h"
#include "sim/inspect.h"
#include "sim/tensor_map.h"

namespace gemm::sim {

// A box of a matrix and where it lies in shared memory. The map is a copy: kernel parameters lie on
// the stack of a thread, which may end before the copy is made.
struct BulkCopy {
  Caller caller;
  TensorMap map;
  int64_t row, col;
  uintptr_t pc;        // of the call, for the tracer
  int64_t landed = 0;  // the timeline's step at which it has come, if there is one

  size_t row_bytes() const { return size_t(map.box_cols) * map.element; }
  size_t bytes() const { return map.box_rows * row_bytes(); }
  void load(char* shared) const;
  void store(const char* shared) const;
  // Tells the running thread's tracer which part of the matrix this touches.
  void trace(AccessKind kind) const;

 private:
  // Calls f(global, within the box's row, bytes) for the part of box row r inside the matrix's rows
  // and its first `cols` columns.
  template <class F>
  void inside(int r, int64_t cols, F&& f) const;
  // Columns that a store may write: more than the matrix has, where it ends within 16 bytes.
  int64_t stored_cols() const;
};

// The bulk loads of a cluster.
class BulkLoads {
 public:
  struct Target {
    Block* block;
    char* shared;
    uint64_t* barrier;
  };
  struct Load {
    BulkCopy copy;
    std::vector<Target> targets;
  };

  void reset() { in_flight_.clear(); }
  void issue(Load load, bool at_once);
  // The oldest lands, or the newest; false when there is none.
  bool land_next(bool newest);
  // Whether a load in flight writes any of these bytes of `block`.
  bool writes(const Block& block, const void* p, size_t bytes) const;
  // Throws when one does.
  void check_landed(const Caller& caller, const Block& block, const void* p, size_t bytes) const;
  // Throws when one writes to `block`, which has ended.
  void check_end(const Block& block) const;

 private:
  static void land(const Load& load);
  std::deque<Load> in_flight_;
};

// The bulk stores of a block: every thread has its own groups.
class BulkStores {
 public:
  void reset() { queues_.clear(); }
  void issue(const BulkCopy& copy, const char* shared, bool at_once);
  void commit(int thread);
  // Returns when at most `pending` groups of the thread have not read their memory.
  void wait(int thread, int pending);
  // Throws when a store that may not have read its memory yet reads any of these bytes.
  void check_read(const Caller& caller, const void* p, size_t bytes) const;
  // Throws when the thread, which ends, has such a store.
  void check_end(int thread) const;

 private:
  struct Store {
    BulkCopy copy;
    const char* shared;
    bool done;
  };
  struct Queue {
    std::deque<Store> stores;   // oldest first
    std::deque<size_t> groups;  // how many stores each has
    size_t open = 0;            // in the group that is not committed
  };
  std::map<int, Queue> queues_;  // by thread
};

}  // namespace gemm::sim
