// The blocks of a cluster, which run together on one OS thread, each until it waits for something
// that another block or TMA must bring. A block that is in no cluster is a cluster of its own.
//
// Dynamic shared memory belongs to the block. A __shared__ variable belongs to the OS thread, so
// that all blocks of a cluster would share it: with more than one block it is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/block.h"
#include "sim/bulk_copy.h"
#include "sim/simulator.h"
#include "sim/thread_barriers.h"

namespace gemm::sim {

class Cluster;

// A thread that waits for a flag in global memory: a counter that may wrap around.
struct SignalWait {
  const uint32_t* flag;
  uint32_t wanted;
  Block* block = nullptr;
  int thread = 0;

  bool holds() const;
  uint32_t now() const;
};

// What goes on outside of a launch that runs beside others (devices.cpp).
class Outside {
 public:
  virtual ~Outside() = default;
  // Lets others run until a thread of the cluster can go on. Throws when that never happens.
  virtual void park(const Cluster& cluster) = 0;
  // Lets others run first, of whom one can go on since a flag has been raised.
  virtual void yield() = 0;
  virtual bool others_can_go_on() const = 0;
  // "arrived[3] of device 1"
  virtual std::string name_of(const void* flag) const = 0;
};

// Returns when the wait holds. By the running thread.
void await(const Caller& caller, SignalWait wait);

class Cluster {
 public:
  // What the launch asks for, of every cluster.
  struct Work {
    void (*body)(void*);
    void* context;
    dim3 shape;
    size_t smem;
    int size;
    AsyncSchedule schedule;
    int device;        // of a Devices; -1: the only one
    Outside* outside;  // null: nothing
    const std::atomic<bool>* stopped;
  };

  // A block failed; `block` is its index in the grid.
  struct Failure : Error {
    Failure(int64_t block, const std::string& what) : Error(what), block(block) {}
    int64_t block;
  };

  // Runs blocks `first`, first + 1 ... on the calling OS thread; begin and end are called for each
  // block, before its first thread runs and after its last one, as that block. Throws Failure, all
  // threads unwound.
  void run(const Work& work, int64_t first, const std::function<void(Block&)>& begin,
           const std::function<void(Block&)>& end);

  // The blocks of the last run.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  int size() const { return size_; }

  AsyncSchedule schedule() const { return schedule_; }
  Outside* outside() const { return outside_; }
  // Threads that wait for flags; and whether one of them can go on.
  std::vector<const SignalWait*>& signal_waits() { return signal_waits_; }
  bool signalled() const;
  // Who waits for what, of all blocks: "block 0: thread 5 ... waits at ...; in block 1, ..."; and
  // the first of the blocks.
  std::pair<std::string, int64_t> who_waits() const;
  // Other clusters may run before this one goes on.
  void yield_to_others() { yields_ = true; }
  // A launch begins on this worker.
  void begin_launch();
  BulkLoads& loads() { return loads_; }
  ClusterBarrier& barrier() { return barrier_; }
  // Throws when there is no such block, or it has ended.
  Block& peer(const Caller& caller, uint32_t rank);
  // The block whose dynamic shared memory holds p, or null.
  const Block* owner(const void* p) const;

 private:
  void start(const Work& work, int64_t first);
  bool resume(Block& block);
  bool wake_signalled();
  bool wait_outside();
  void check_statics() const;
  [[noreturn]] void fail_deadlock();

  std::vector<std::unique_ptr<Block>> blocks_;  // by rank; only the first size_ count
  int size_ = 1;
  AsyncSchedule schedule_ = AsyncSchedule::lazy_copies;
  Outside* outside_ = nullptr;
  std::vector<const SignalWait*> signal_waits_;
  bool yields_ = false;
  bool statics_fresh_ = false;  // filled, and not written since
  BulkLoads loads_;
  ClusterBarrier barrier_;
};

}  // namespace gemm::sim
