// The simulator as its host sees it: which errors a launch throws, how many OS threads it uses, and
// what it counted. Kernels see sim/cuda.h instead.
//
// Host threads may launch at any time: a lock lets one launch run after the other, each on all OS
// threads. Results and errors belong to the thread that launched. The settings below, the counts
// and a trace (sim/inspect.h) belong to the process: who uses them launches from one thread alone.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace gemm::sim {

// What a launch throws: one line, naming the block, and where it applies the thread and the source
// line. When several blocks fail, the error of the lowest block is the one thrown, whatever the
// number of OS threads. A failed launch leaves the simulator usable.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a launch executed. All figures are the same for any number of OS threads.
struct LaunchStats {
  int64_t blocks = 0;
  int threads_per_block = 0;
  int64_t barriers = 0;     // __syncthreads() completed by one block; the largest over all blocks
  int64_t collectives = 0;  // warp collectives (shuffle, ldmatrix, mma, ...), one a warp
  int64_t copies = 0;       // cp.async issued, one a thread
  int64_t copy_bytes = 0;   // bytes that these read (zero fill not counted)
  // Bytes of TMA's loads, whole boxes.
  int64_t tma_asked = 0;      // asked of L2; a multicast counts once
  int64_t tma_multicast = 0;  // the part of tma_asked that is multicast
  int64_t tma_delivered = 0;  // written to shared memory, in all blocks
};

// Whether `a` is the main launch of a call that made both, b first.
inline bool outweighs(const LaunchStats& a, const LaunchStats& b) {
  return a.barriers != b.barriers ? a.barriers > b.barriers : a.collectives >= b.collectives;
}

// When TMA's copies and wgmma happen, each between the earliest and the latest moment that the
// program allows. A pipeline should be run under all:
//   lazy_copies   copies as late as possible, wgmma at once: finds a missing wait for a full buffer
//   eager_copies  copies at once, wgmma as late as possible: finds a buffer released too early
//   newest_first  as lazy_copies, the newest before older ones: finds who counts on an order, which
//                 TMA does not promise
enum class AsyncSchedule { lazy_copies, eager_copies, newest_first };

// Sets the schedule of later launches; lazy_copies is the default.
void set_async_schedule(AsyncSchedule schedule);

// The last launch that succeeded, on any host thread.
LaunchStats last_launch();
// The launch since clear_launches() that a reader means when a call makes several: a GEMM
// synchronises its threads; what repacks its operands or adds up its partial results does not, or
// less. All zeros when there was none.
LaunchStats main_launch();
void clear_launches();
// Counts a launch that another process made.
void add_launch(const LaunchStats& stats);

// Spreads the blocks of later launches over `n` OS threads; 0, the default, means one a core.
// Throws Error when n < 0. Results, counts and errors do not depend on it (except for the order of
// atomicAdd between blocks, as on a GPU).
void set_threads(int n);

// Asked some twenty times a second while the process's main thread, which signals reach, waits for a
// launch: where it returns other than 0, the launch ends with an Error. Null, the default: nobody.
void set_interrupt(int (*asked)());

}  // namespace gemm::sim
