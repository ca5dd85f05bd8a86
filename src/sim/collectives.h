// Warp collectives: each lane brings its operands; the last to arrive does the work of all.
#pragma once

#include <cstdint>
#include <source_location>

#include "sim/scheduler.h"

namespace gemm::sim {

class Collectives {
 public:
  struct Op;
  struct Arrival {
    const Op* op;
    uint32_t mask;
    std::source_location where;
    void* operands;  // of the op's own type, on the lane's stack
  };
  // One object an operation; its address is its identity.
  struct Op {
    const char* name;
    // Reads the operands of the lanes in `mask` and writes their results.
    void (*complete)(const Arrival (&lanes)[WARP], uint32_t mask);
    bool orders_memory = false;  // between its lanes; collectives in general do not
  };

  void reset() {
    for (Warp& w : warps_) w.pending = 0;
    count = 0;
  }
  // The running thread takes part with the other lanes of `mask`, and waits for them. Throws Error
  // when the lanes disagree.
  void join(Scheduler& scheduler, const Op& op, uint32_t mask, std::source_location where,
            void* operands);

  int64_t count = 0;  // completed since the reset

 private:
  struct Warp {
    uint32_t pending = 0;  // lanes that wait
    Arrival arrivals[WARP];
  };

  static void check(const Scheduler& scheduler, const Warp& warp);

  Warp warps_[MAX_THREADS / WARP];
};

// The running thread takes part in `op`: Collectives::join of its block.
void join_collective(const Collectives::Op& op, uint32_t mask, std::source_location where,
                     void* operands);

}  // namespace gemm::sim
