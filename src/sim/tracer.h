// The one part of the simulator that knows events. Each OS thread that runs blocks of a traced
// launch has a Tracer, which this_thread points to; the compiler's calls before every load and
// store (tsan.cpp) and the runtime's functions report to it. It finds out what memory an access is
// to, groups the accesses of a warp's lanes into requests, and hands both to the sinks:
//   Races         every access to shared memory, and everything that synchronises
//   GlobalMemory  every access to a matrix
//   the totals    every request of a warp (here)
//   FirstRequest  the first request of each instruction of one warp, if it is watched  (here)
//
// A request is what the lanes of a warp do at one program counter, for the n-th time since they
// were last together: since a barrier or a collective of the whole warp. So lanes need not run in
// lock step, and divergent ones meet again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "sim/findings.h"
#include "sim/global_memory.h"
#include "sim/inspect.h"
#include "sim/peer_memory.h"
#include "sim/races.h"
#include "sim/scheduler.h"
#include "sim/shared_memory.h"
#include "sim/shared_variables.h"
#include "sim/timeline.h"
#include "sim/warp_request.h"

namespace gemm::sim {

// In a function that kernels call and that is not inlined: the program counter of the call.
#define GEMM_SIM_CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

// A piece of memory: SHARED + the index of a variable in shared_variables(), or of dynamic memory
// one past them; or, for global memory, 1 + a matrix's index.
using Target = uint16_t;
constexpr Target SHARED = 1 << 15;
inline bool is_shared(Target t) { return t >= SHARED; }

// What all OS threads of a trace work for.
struct TraceSession {
  // One instruction's traffic to one piece of memory.
  struct Key {
    uintptr_t pc;
    AccessKind kind;
    Target target;
    int launch;
    auto operator<=>(const Key&) const = default;
  };

  explicit TraceSession(const TraceOptions& options);
  std::string name(Target target) const;

  // Scratch memory that a launch allocates joins the matrices, and stays among them after its end.
  void add_workspace(void* allocation, size_t allocation_bytes, void* first, size_t bytes);
  // Memory of a Devices joins them, too, if the options do not name it.
  void add_memory(std::string name, void* allocation, size_t allocation_bytes, void* first,
                  size_t bytes);
  void zero_workspace(void* first);
  void remove_workspace(void* first);

  const TraceOptions& options;
  std::vector<Matrix> matrices;                         // the options', then scratch memory
  std::vector<std::unique_ptr<uint8_t[]>> initialised;  // of scratch memory
  // The launching OS thread's stack: kernels read their parameters there.
  uintptr_t stack_begin = 0;
  size_t stack_bytes = 0;
  std::vector<std::unique_ptr<Writers>> writers;

  void add(std::string name, void* allocation, size_t allocation_bytes, void* first, size_t bytes,
           uint8_t* known);

  std::mutex mutex;  // of what follows: sums over the Tracers
  std::map<Key, Traffic> traffic;
  std::vector<std::pair<Key, FirstRequest>> requests;  // of the watched warp, as it made them
  Findings findings;
  std::vector<Written> written;
  std::map<int, TimelineRecorder> timelines;  // by launch, if options.timeline

  bool in_order = false;  // one block at a time has run, always in the same order
  Trace result;           // its launch figures; the rest is made of the above
  // The index of a launch that begins.
  int begin_launch() {
    result.launches.emplace_back();
    return static_cast<int>(result.launches.size()) - 1;
  }
  void launched(int index, const LaunchStats& stats, int64_t blocks_run) {
    std::vector<Trace::Launch>& all = result.launches;
    all[index] = {stats, blocks_run};
    if (outweighs(stats, all[result.main].stats)) result.main = index;
    const Trace::Launch& main = all[result.main];
    result.grid = main.stats.blocks;
    result.traced = main.traced;
    result.threads_per_block = main.stats.threads_per_block;
    result.barriers = main.stats.barriers;
  }
};

// What the launches of the calling thread report to; null: nothing.
void set_session(TraceSession* session);

// A launch as the Tracers of its blocks know it.
struct TracedLaunch {
  int index = 0;    // in the session
  int device = -1;  // of a Devices; -1: the only one
  // Where kernels read their parameters, if not on the launching OS thread's stack.
  uintptr_t arguments = 0;
  size_t argument_bytes = 0;
  // Memory that several devices reach; null: none.
  PeerMemory* memory = nullptr;
  PeerMemory::Grid* grid = nullptr;
};

class Tracer {
 public:
  Tracer(TraceSession& session, const TracedLaunch& launch, const Scheduler& scheduler,
         const SharedMemory& shared);
  ~Tracer();  // adds what it found to the session
  Tracer(const Tracer&) = delete;

  void begin_block(int64_t block, int rank, int threads);
  void end_block();

  // By the running thread. `pc`: after the call that reports the access.
  void access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc) {
    if (address - static_begin_ < static_bytes_ || address - dynamic_begin_ < dynamic_bytes_)
      shared_access(address, bytes, kind, pc);
    else if (address - stacks_begin_ >= stacks_bytes_)
      global_access(address, bytes, kind, pc);
  }
  // The access is one that a GPU faults at.
  void misaligned(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc);
  // cp.async of `bytes` bytes, of which the first `src_bytes` are read and the rest is zero.
  void copy_issued(const void* to, const void* from, int bytes, int src_bytes, uintptr_t pc);
  void copy_landed(const void* to, int bytes);

  // TMA and wgmma, in whole pieces of 16 bytes of shared memory. They are no requests of a warp,
  // and so not counted. Of a copy to this block's memory, asked for by its own running thread:
  void bulk_issued(const void* to, size_t bytes, uintptr_t pc);
  // ... and when it has come and `barrier` tells so; thread: who asked for it.
  void bulk_landed(int thread, const void* to, size_t bytes, const void* barrier);
  // In all that follows here, what `timeline` returns is null unless one is recorded.
  TimelineRecorder* timeline() const { return timeline_; }
  TimelineRecorder::Who me() const { return {rank_, scheduler_.warp(), scheduler_.lane()}; }
  // The name of the matrix that holds this byte; empty: none.
  const char* matrix_name(const void* p) const;
  // A copy or a store of another block of the cluster.
  void written_from_outside(const void* to, size_t bytes, uintptr_t pc);
  // A TMA store of the running thread, at its issue and when the thread's wait has returned.
  void store_issued(const void* from, size_t bytes, uintptr_t pc);
  void store_has_read(const void* from, size_t bytes, uintptr_t pc);
  // The running thread lets wgmma read this.
  void bulk_read(const void* from, size_t bytes, uintptr_t pc);
  // ... or access a row of a matrix.
  void bulk_global(const void* p, size_t bytes, AccessKind kind, uintptr_t pc);
  void bulk_committed();
  void bulk_complete(int pending);  // to global memory; of its stores

  // The running thread raises a flag, or has waited for it.
  void signal_release(const uint32_t* flag, uint32_t before, uint32_t after, bool adds,
                      uintptr_t pc);
  void signal_acquire(const uint32_t* flag, uint32_t at_least, uintptr_t pc);
  void proxy_fence();
  // These blocks, of one cluster, have waited for each other.
  static void meet(const std::vector<Tracer*>& blocks);

  void barrier(std::source_location where);  // the running thread arrives at __syncthreads
  void exit_thread();                        // it ends
  // The last of these lanes of the running warp arrives at a collective; `orders_memory`: what any
  // of them did before comes before what any of them does after.
  void collective(uint32_t lanes, bool orders_memory);
  // The running thread initialises an mbarrier of its block, or uses one.
  void mbarrier_init(const void* barrier, std::source_location where);
  void mbarrier_use(const void* barrier, std::source_location where);
  // The running thread comes after all releases of the phases of `object` that are complete: for
  // mbarriers and the like.
  void sync_acquire(const void* object) { races_.acquire(scheduler_.thread(), object); }
  void sync_release(const void* object) { races_.release(scheduler_.thread(), object); }
  void sync_complete(const void* object) { races_.complete(object); }

 private:
  using Site = Races::Site;

  // The accesses of a warp since its lanes were last together: by site, the n-th of each lane.
  struct SiteLog {
    uint32_t count[WARP] = {};
    size_t used = 0;  // of `requests`, which only grows
    std::vector<WarpRequest> requests;
    std::set<uint32_t> told;  // to the timeline: addresses, of the lanes that came first
  };
  struct WarpLog {
    std::vector<std::unique_ptr<SiteLog>> sites;
    std::vector<Site> used;
  };
  struct SiteInfo {
    uintptr_t pc;
    AccessKind kind;
    std::map<Target, Traffic> traffic;
    bool copies = false;  // cp.async, which the timeline shows as one
  };

  Site site(uintptr_t pc, AccessKind kind);
  Site new_site(uintptr_t pc, AccessKind kind);
  void log(Site site, uint8_t matrix, uint32_t address, int bytes);
  void tell(SiteLog& s, Site site, uint8_t matrix, uint32_t address);
  void flush(int warp);
  void keep_first(const TraceSession::Key& key, const WarpRequest& r, int warp);
  bool arrive();
  void gather();

  void shared_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc);
  void global_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc);
  void stray_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc);
  uint32_t shared_offset(uintptr_t address) const;
  void add(const Races::Report& report);
  struct Variable {
    Target target;
    size_t byte;
  };
  Variable variable(uint32_t at) const;
  std::string byte_name(uint32_t at) const;  // "byte 132 of sA"
  std::string who() const;

  TraceSession& session_;
  const TracedLaunch& launch_;
  const Scheduler& scheduler_;
  const SharedMemory& shared_;
  uintptr_t static_begin_, dynamic_begin_, stacks_begin_;
  size_t static_bytes_, dynamic_bytes_ = 0, stacks_bytes_;
  size_t dynamic_offset_;  // of the dynamic part, behind the static one

  int64_t block_ = 0;
  int threads_ = 0;
  int at_barrier_ = 0;             // threads
  int apart_[MAX_THREADS / WARP];  // lanes of each warp that have not reached the barrier or ended

  struct Slot {
    uintptr_t key = 0;
    Site site = 0;
  };
  static constexpr int SLOT_BITS = 13;
  std::vector<Slot> slots_ = std::vector<Slot>(1 << SLOT_BITS);  // a hash table
  std::vector<SiteInfo> sites_;
  std::array<std::unique_ptr<WarpLog>, MAX_THREADS / WARP> logs_;
  std::vector<std::unique_ptr<WarpLog>> spare_logs_;  // the last one used is the one in the cache
  std::vector<uint32_t> seen_;                        // scratch of flush
  std::vector<std::pair<TraceSession::Key, FirstRequest>> requests_;  // of the watched warp
  std::map<std::pair<TraceSession::Key, int>, int64_t> kept_;         // how many, by warp

  int rank_ = 0;  // of the block in its cluster
  TimelineRecorder* timeline_ = nullptr;
  Races races_;
  GlobalMemory global_;
  std::unique_ptr<PeerMemory::Party> party_;  // of a launch beside others: its block
  Findings findings_;
};

}  // namespace gemm::sim
