// All state of the block that an OS thread runs; each worker has one and runs blocks in it, one
// after the other.
#pragma once

#include "sim/async_copy.h"
#include "sim/collectives.h"
#include "sim/diagnosis.h"
#include "sim/scheduler.h"
#include "sim/shared_memory.h"

namespace gemm::sim {

struct Block {
  Scheduler scheduler;
  Collectives collectives;
  AsyncCopies copies;
  SharedMemory shared;
};

// The block that calls `what`.
inline Block& current_block(const char* what) {
  if (this_thread.block == nullptr) fail("{} called outside a kernel", what);
  return *this_thread.block;
}

}  // namespace gemm::sim
