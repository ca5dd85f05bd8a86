// All state of a block that runs. Each worker has a few, a cluster's, and runs blocks in them, one
// cluster after the other.
#pragma once

#include <vector>

#include "sim/async_copy.h"
#include "sim/async_proxy.h"
#include "sim/bulk_copy.h"
#include "sim/collectives.h"
#include "sim/diagnosis.h"
#include "sim/mbarrier.h"
#include "sim/scheduler.h"
#include "sim/shared_memory.h"
#include "sim/thread_barriers.h"
#include "sim/wgmma.h"

namespace gemm::sim {

class Cluster;

struct Block {
  Cluster* cluster = nullptr;
  int rank = 0;              // in the cluster
  int64_t index = 0;         // in the grid
  Tracer* tracer = nullptr;  // null where nothing is traced
  // Whether the launch has PDL, and which threads have called grid_dependency_wait.
  bool pdl = false;
  std::vector<bool> waited;

  std::vector<int> registers;  // that setmaxnreg gives each warp's threads; 0: it has not called it

  // See LaunchStats; of loads that it has asked for.
  int64_t tma_asked = 0, tma_multicast = 0, tma_delivered = 0;

  Scheduler scheduler;
  Collectives collectives;
  AsyncCopies copies;
  SharedMemory shared;
  Mbarriers mbarriers;
  NamedBarriers named_barriers;
  AsyncProxy proxy;
  BulkStores stores;
  Wgmma wgmma;

  // The address in this block's shared memory that is the same place as p in the caller's. Throws
  // when p is not shared memory; other blocks have only dynamic one.
  void* same_place(const Caller& caller, const void* p) const;
  // "dynamic shared memory + 128", "sA + 28", or else the address, in a trace with its matrix.
  std::string place_of(const void* p) const;
};

// The block that calls `what`.
inline Block& current_block(const char* what) {
  if (this_thread.block == nullptr) fail("{} called outside a kernel", what);
  return *this_thread.block;
}

}  // namespace gemm::sim
