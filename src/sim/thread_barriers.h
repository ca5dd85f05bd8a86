// Barriers of some of a block's threads, by number, and of all threads of a cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/caller.h"
#include "sim/scheduler.h"

namespace gemm::sim {

// bar.sync and bar.arrive
class NamedBarriers {
 public:
  struct Barrier {
    int id = 0;
    int threads = 0, arrived = 0;  // of those that gather now
    std::vector<int> waiters;
  };

  void reset() {
    for (Barrier& b : barriers_) b.threads = b.arrived = 0, b.waiters.clear();
  }
  // The running thread arrives and, if it `waits`, returns when as many as `threads` have.
  void arrive(const Caller& caller, Scheduler& scheduler, int id, int threads, bool waits);

 private:
  static constexpr int COUNT = 16;  // a block has
  Barrier barriers_[COUNT];
};

class ClusterBarrier {
 public:
  void reset(std::vector<Block*> blocks);  // the cluster's
  void arrive(const Caller& caller, int rank);
  void wait(const Caller& caller, int rank);
  // Lets the waiting threads go on once all that have not exited have arrived; whether it did.
  bool complete();
  int missing() const;  // threads

 private:
  enum class State : uint8_t { outside, arrived, passed };  // passed: may return from its wait
  struct Waiter {
    int rank, thread;
  };

  std::vector<Block*> blocks_;
  std::vector<std::vector<State>> states_;  // by rank and thread
  int arrived_ = 0;
  std::vector<Waiter> waiters_;
};

}  // namespace gemm::sim
