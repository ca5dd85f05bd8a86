// The microscope as its host sees it: runs kernels of the traced build and tells what each of their
// source lines asked of memory, and what they did wrong. README.md says how to read it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulator.h"
#include "sim/warp_id.h"

namespace gemm::sim {

// A matrix in global memory that kernels may touch, row-major, leading dimension and sizes in
// elements. `allocation` holds it with whatever guards lie around.
struct Matrix {
  std::string name;
  const void* allocation = nullptr;
  size_t allocation_bytes = 0;
  const void* first = nullptr;  // element (0, 0)
  int64_t rows = 0, cols = 0, ld = 0;
  int element = 0;       // bytes
  bool readable = true;  // false: its old values must not be used
  bool writable = false;
  bool written_once = false;  // every element must be
  // For each byte from `first` on, nonzero once it has been written, and must be so before it is
  // read; null: values were there before.
  uint8_t* initialised = nullptr;
};

enum class AccessKind : uint8_t { read, write, atomic };

// What a group of warp requests asked for, and the least that could have served the same threads.
struct Traffic {
  int64_t requests = 0;
  int64_t bytes = 0;     // that the threads asked for, each lane counted
  int64_t passes = 0;    // global memory: 32-byte sectors; shared memory: wavefronts
  int64_t ideal = 0;     // passes at best: all bytes of a sector used; no bank conflict
  int64_t repeated = 0;  // further requests, left out: see README.md, "Repeated loads"
  Traffic& operator+=(const Traffic& t) {
    requests += t.requests, bytes += t.bytes, passes += t.passes, ideal += t.ideal;
    repeated += t.repeated;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};

struct SourceLine {
  std::string file;  // as the compiler was given it; empty: unknown
  int line = 0;
  auto operator<=>(const SourceLine&) const = default;
};
std::string place(const SourceLine& line);  // "v02_block_tile.cu:57"

// The traffic of one source line, in one direction, to one memory.
struct LineTraffic {
  SourceLine line;    // in the kernel's own file
  SourceLine helper;  // where the access stands, if in a function of another file that it calls
  AccessKind kind = AccessKind::read;
  bool global = false;  // else shared memory
  std::string memory;   // the matrix's or the __shared__ variable's name; "dynamic"
  int launch = 0;       // which of the call's
  Traffic traffic;
  bool operator==(const LineTraffic&) const = default;
};

// One of the first requests that one warp made at a source line, in one direction, to one piece of
// memory.
struct FirstRequest {
  SourceLine line, helper;  // as in LineTraffic
  AccessKind kind = AccessKind::read;
  bool global = false;
  std::string memory;
  int warp = 0;
  int bytes = 0;       // of each lane's access
  uint32_t lanes = 0;  // which take part
  // By lane, for those that do: where the access begins, in bytes from the matrix's element (0, 0),
  // from the start of the __shared__ variable, or from that of dynamic memory; and, of shared
  // memory, the wavefront that serves it.
  std::array<int64_t, 32> offset = {};
  std::array<uint8_t, 32> wavefront = {};
  int first_bank = 0;             // of shared memory: the bank of offset 0
  int64_t passes = 0, ideal = 0;  // as in Traffic
  int64_t repeats = 0;            // earlier requests of the same instruction that are shown, too
};

// One mistake; `what` is one line that names the source lines, a block and a thread.
struct Finding {
  std::string check;  // "race", "out of bounds", ...
  std::string what;
  int64_t count = 0;  // accesses, or elements; 0: not counted, the launch ended early
  // The access, and the other party's where there is one.
  SourceLine line, other;
  int64_t block = -1;  // the lowest in which it was seen; -1: of no one block
  bool operator==(const Finding&) const = default;
};

// What a warp does in a timeline.
enum class EventKind : uint8_t {
  global_load,
  global_store,
  shared_load,
  shared_store,
  atomic,
  mma,
  barrier,  // __syncthreads
  cp_async,
  cp_async_commit,
  cp_async_wait,
  mbarrier_arrive,
  mbarrier_wait,
  tma_load,
  tma_store,
  tma_commit,
  tma_wait,
  wgmma,
  wgmma_commit,
  wgmma_wait,
  named_arrive,
  named_sync,
  cluster_arrive,
  cluster_wait,
  mistake
};

// Instructions of one kind at one source line by one warp, between two of its synchronisations.
struct TimelineEvent {
  EventKind kind = EventKind::barrier;
  int cta = 0, warp = 0;    // cta: the rank in the cluster
  SourceLine line, helper;  // as in LineTraffic
  // Steps, as a timeline counts them; end -1: a wait that never ended.
  int64_t begin = 0, end = 0;
  int64_t done = 0;    // of what runs on after its issue (copies, wgmma): when it has ended; else 0
  int64_t count = 0;   // instructions
  int object = -1;     // the barrier: an index in Timeline::barriers
  int64_t phase = 0;   // of that barrier, from 0; -1: the one before the first
  int64_t bytes = 0;   // of a copy; announced by an arrival
  std::string memory;  // the matrix of a TMA copy; of a mistake: which check
  int64_t row = 0, col = 0;  // of the box's first element; of a mistake, row: the other warp
};

// A barrier of a timeline, and the steps at which its phases completed.
struct TimelineBarrier {
  enum class Kind : uint8_t { block, mbarrier, named, cluster };
  Kind kind = Kind::block;
  int cta = 0;
  int64_t place = 0;  // an mbarrier's offset in dynamic shared memory, or a named barrier's number
  int64_t count = 0;  // arrivals that complete a phase
  bool takes_bytes = false;  // some phase waits for bytes of TMA, too
  std::vector<int64_t> completed;
};

// What the warps of one cluster did. Steps are no time: an instruction takes one, and a wait ends
// when what it waits for has come. So the order is one that a GPU may take, and lengths are nominal.
struct Timeline {
  static constexpr size_t MOST_EVENTS = 6000;
  std::vector<TimelineEvent> events;  // in the order of their begin
  std::vector<TimelineBarrier> barriers;
  int64_t block = 0;  // the cluster's first
  int ctas = 0, warps = 0;
  bool cut = false;  // there were more events
};

// The part of a matrix that was written: its bounding box, and how many element writes.
struct Written {
  int64_t row_begin = INT64_MAX, row_end = 0, col_begin = INT64_MAX, col_end = 0, elements = 0;
};

struct TraceOptions {
  std::vector<Matrix> matrices;
  std::vector<int64_t> blocks;    // of each launch, ascending, those in its grid; empty: all
  std::optional<WarpId> watched;  // whose requests are to be shown
  int64_t first_requests = 1;     // how many of each of its instructions
  bool owners = false;            // who wrote which element is to be told
  bool timeline = false;          // of the first cluster that runs; best with one of `blocks`
};

struct Trace {
  struct Launch {
    LaunchStats stats;
    int64_t traced = 0;  // blocks that ran
  };
  std::vector<Launch> launches;  // none: nothing of it runs in the simulator
  int main = 0;                  // which of them the reader means (outweighs); below, its figures
  int64_t grid = 0;              // blocks
  int64_t traced = 0;            // blocks that ran
  int threads_per_block = 0;
  int64_t failed_block = -1;  // the launch ended at it; findings are those up to it, without counts
  int64_t barriers = 0;       // __syncthreads by one block; the largest over all blocks
  std::vector<LineTraffic> lines;  // in order of lines
  std::vector<Finding> findings;
  std::vector<Written> written;  // by matrix
  // By matrix that is written once, and element, row by row: which thread wrote it; -1: none.
  std::vector<std::vector<int>> owners;
  std::vector<FirstRequest> requests;  // of the watched warp, in order of lines
  Timeline timeline;                   // of the main launch
};

// Traces all launches of traced kernels that `run` makes. What they throw (sim::Error) becomes a
// finding. Deterministic: nothing in the result depends on the number of OS threads or on the run.
// One trace at a time. Throws std::bad_alloc.
Trace trace(const TraceOptions& options, const std::function<void()>& run);

}  // namespace gemm::sim
