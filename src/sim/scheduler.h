// The threads of one block as fibers of one OS thread. Exactly one runs at a time, and keeps
// running until it waits or exits; then the lowest waiting lane of its own warp that can run goes
// on, else the next warp does. So the order is fixed, and data races show up the same way in every
// run.
#pragma once

#include <atomic>
#include <bit>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "sim/runtime.h"
#include "sim/sanitizer.h"
#include "sim/simulator.h"

namespace gemm::sim {

constexpr int MAX_THREADS = 1024, WARP = 32;

// What a thread waits for, for diagnoses: `lanes` of its own warp; or, with `missing`, what that
// tells of `object`, which may yet come from outside of the block; or else the whole block.
struct Wait {
  const char* what;
  std::source_location where;
  uint32_t lanes = 0;
  std::string (*missing)(const void* object) = nullptr;
  const void* object = nullptr;
};

class Scheduler {
 public:
  Scheduler() = default;
  ~Scheduler();
  // A new block, whose threads are to run body(context) once each. They end where `stopped` is set.
  void start(void (*body)(void*), void* context, dim3 shape, const std::atomic<bool>& stopped);
  // Runs them until all have exited or wait for something from outside. Throws Error, all threads
  // unwound, when one throws or when those that are left can never go on.
  void resume();
  bool can_run() const { return ready_warps_ != 0; }
  bool finished() const { return exited_ == threads_; }
  // Unwinds all threads.
  void abandon();

  // The running thread.
  int thread() const { return running_; }
  int warp() const { return running_ / WARP; }
  int lane() const { return running_ & (WARP - 1); }

  // Blocks the running thread until another one calls release for it.
  void suspend(const Wait& wait);
  // Lets these lanes of the running thread's warp go on, and then the lowest lane goes first.
  void release(uint32_t lanes);
  // Lets a thread that waits for something from outside go on. From anywhere.
  void wake(int thread) { set_ready(thread / WARP, 1u << thread % WARP); }
  // Lets `thread`, just woken, run before the running one.
  void yield_to(int thread);
  // Lets the other lanes of the running thread's warp run until they wait, exit or do the same.
  void yield_lane();
  // Lets the other blocks of the cluster run before the running thread.
  void yield_block();
  // __syncthreads
  void barrier(std::source_location where);

  // The lanes that a warp of this block has: all 32 but perhaps in the last.
  uint32_t lanes_of(int warp) const {
    const int count = threads_ - warp * WARP;
    return count >= WARP ? ~0u : (1u << count) - 1;
  }
  const void* stacks() const { return stacks_.begin(); }
  static size_t stacks_size() { return Stacks::SIZE; }
  int threads() const { return threads_; }
  int alive() const { return threads_ - exited_; }
  bool exited(int thread) const { return state_[thread] == State::exited; }
  // "thread 5 ... waits at ...; thread 32 ... and 31 more wait at ...": of all that have not
  // exited, when nothing comes from outside any more.
  std::string who_waits() const;
  std::string name(int thread) const;             // "thread 37 (warp 1, lane 5)"
  int64_t barriers() const { return barriers_; }  // completed in the last run

  // Throws where the launch is to end before its time. Asked where a block or a warp waits, not at each
  // switch, of which there are thousands.
  void check_stopped() const {
    if (stopped_->load(std::memory_order_relaxed)) [[unlikely]]
      stop();
  }
  [[noreturn]] static void stop();  // not inline: what throws would make a switch slower

 private:
  using Fiber = boost::context::fiber;
  enum class State : uint8_t { fresh, started, exited };
  struct Abandoned {};  // thrown through the threads of a block that failed
  static constexpr int MAIN = MAX_THREADS, NONE = -1;

  // All stacks in one reservation, of which only the pages in use cost memory.
  class Stacks {
   public:
    static constexpr size_t STACK = (ADDRESS_SANITIZER ? 512 : 64) * 1024,  // its frames are larger
        SIZE = (MAX_THREADS + 1) * STACK;
    Stacks();
    ~Stacks();
    const void* begin() const { return base_; }
    boost::context::preallocated of(int thread) const;
    StackBounds bounds(int thread) const { return {base_ + (thread + 1) * STACK, STACK}; }

   private:
    char* base_;
  };

  // Switching leaves a call (jump_fcontext) without its return, so the processor mispredicts every
  // return up to the kernel. So all that lies between is inlined: 30 ns a switch became 18.
  void switch_to(int next);
  void arrived(void* kept);
  // Runs whoever is next after one of `warp`. The running thread is ready, and may be that one.
  void run_next(int warp);
  int take_next(int warp);

  void create_fiber(int thread);
  void run_thread(int thread);
  void exit_thread(int thread);
  void set_ready(int warp, uint32_t lanes) {
    ready_[warp] |= lanes;
    ready_warps_ |= 1u << warp;
  }
  int when_stuck() const;
  int first_starved() const;
  [[noreturn]] void fail_divergent() const;
  std::string why_stuck() const;
  std::string divergence() const;
  std::string deadlock(int thread) const;

  Stacks stacks_;
  std::vector<Fiber> fibers_ = std::vector<Fiber>(MAX_THREADS + 1);  // suspended ones; MAIN's last
  int created_ = 0;
  StackBounds main_stack_;  // of whoever calls resume(), for the sanitizer

  // The block that runs.
  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
  const std::atomic<bool>* stopped_ = nullptr;
  dim3 shape_;
  int threads_ = 0;
  int running_ = MAIN, from_ = MAIN;  // from_: who switched to running_
  int exited_ = 0;
  bool abandoned_ = false;
  std::string failure_;  // the first; empty: none
  // ready_warps_: those that have a lane which is ready, or yielded_: ready after the others.
  uint32_t ready_warps_ = 0, ready_[MAX_THREADS / WARP] = {}, yielded_[MAX_THREADS / WARP] = {};
  State state_[MAX_THREADS] = {};
  const Wait* waits_[MAX_THREADS] = {};
  uint3 index_[MAX_THREADS] = {};

  // The barrier that threads are gathering at.
  int arrived_ = 0;
  bool same_line_ = true;
  std::source_location line_;
  int64_t barriers_ = 0;
};

inline void Scheduler::arrived(void* kept) {
  StackBounds previous;
  after_switch(kept, previous);
  if (from_ == MAIN) main_stack_ = previous;
}

GEMM_SIM_INLINE void Scheduler::switch_to(int next) {
  from_ = running_;
  running_ = next;
  if (next != MAIN) this_thread.thread_idx = index_[next];
  void* kept = nullptr;
  before_switch(&kept, next == MAIN ? main_stack_ : stacks_.bounds(next));
  Fiber back = std::move(fibers_[next]).resume();
  arrived(kept);
  fibers_[from_] = std::move(back);  // from_ has become whoever switched here
}

// The thread to run after one of `warp`, no longer ready; NONE if none is.
GEMM_SIM_INLINE int Scheduler::take_next(int warp) {
  if (ready_[warp] == 0) {
    if (ready_warps_ == 0) return NONE;
    const uint32_t later = ready_warps_ & (~0u << warp);
    warp = std::countr_zero(later ? later : ready_warps_);
    if (ready_[warp] == 0) ready_[warp] = std::exchange(yielded_[warp], 0);
  }
  const int lane = std::countr_zero(ready_[warp]);
  ready_[warp] &= ready_[warp] - 1;
  if ((ready_[warp] | yielded_[warp]) == 0) ready_warps_ &= ~(1u << warp);
  return warp * WARP + lane;
}

GEMM_SIM_INLINE void Scheduler::suspend(const Wait& wait) {
  const int self = running_;
  waits_[self] = &wait;
  const int next = take_next(warp());
  switch_to(next != NONE ? next : when_stuck());
  if (abandoned_) throw Abandoned();
  waits_[self] = nullptr;
}

GEMM_SIM_INLINE void Scheduler::run_next(int warp) {
  const int self = running_;
  const int next = take_next(warp);
  if (next == self) return;
  switch_to(next);
  if (abandoned_) throw Abandoned();
}

GEMM_SIM_INLINE void Scheduler::release(uint32_t lanes) {
  set_ready(warp(), lanes | 1u << lane());
  run_next(warp());
}

}  // namespace gemm::sim
