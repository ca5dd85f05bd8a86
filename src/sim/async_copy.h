// cp.async: copies that land as late as the program allows, at the wait that it needs for them. A
// kernel that waits too little therefore reads old data here, every time.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/scheduler.h"

namespace gemm::sim {

class AsyncCopies {
 public:
  struct Copy {
    void* to;
    const void* from;
    int bytes, src_bytes;  // the rest is zero
  };

  void reset() {
    for (Queue& q : queues_) q.copies.clear(), q.groups.clear();
    count = bytes = 0;
  }
  void issue(int thread, const Copy& copy);
  // Closes the thread's group; an empty one counts.
  void commit(int thread);
  // Performs all but the newest `pending` groups.
  void wait(int thread, int pending);

  int64_t count = 0, bytes = 0;  // issued since the reset, and what they read

 private:
  struct Queue {
    std::vector<Copy> copies;    // oldest first
    std::vector<size_t> groups;  // each one's end in `copies`
  };
  std::vector<Queue> queues_ = std::vector<Queue>(MAX_THREADS);
};

}  // namespace gemm::sim
