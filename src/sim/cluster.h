// The blocks of a cluster, which run together on one OS thread, each until it waits for something
// that another block or TMA must bring. A block that is in no cluster is a cluster of its own.
//
// Dynamic shared memory belongs to the block. A __shared__ variable belongs to the OS thread, so
// that all blocks of a cluster would share it: with more than one block it is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/block.h"
#include "sim/bulk_copy.h"
#include "sim/simulator.h"
#include "sim/thread_barriers.h"

namespace gemm::sim {

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

  // Of the last run.
  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  int size() const { return size_; }

  AsyncSchedule schedule() const { return schedule_; }
  BulkLoads& loads() { return loads_; }
  ClusterBarrier& barrier() { return barrier_; }
  // Throws when there is no such block, or it has ended.
  Block& peer(const Caller& caller, uint32_t rank);
  // The block whose dynamic shared memory holds p, or null.
  const Block* owner(const void* p) const;

 private:
  void start(const Work& work, int64_t first);
  bool resume(Block& block);
  [[noreturn]] void fail_deadlock();

  std::vector<std::unique_ptr<Block>> blocks_;  // by rank; only the first size_ count
  int size_ = 1;
  AsyncSchedule schedule_ = AsyncSchedule::lazy_copies;
  BulkLoads loads_;
  ClusterBarrier barrier_;
};

}  // namespace gemm::sim
