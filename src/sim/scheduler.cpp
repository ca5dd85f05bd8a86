#include "sim/scheduler.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "sim/block.h"
#include "sim/diagnosis.h"
#include "sim/tracer.h"

namespace gemm::sim {

namespace context = boost::context;

namespace {

// The stacks outlive their fibers.
struct KeepStack {
  void deallocate(context::stack_context&) noexcept {}
};

}  // namespace

Scheduler::Stacks::Stacks() {
  void* p = mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<char*>(p);
  // All threads of a kernel have the same frame and thread 0 runs first, so the guard under its
  // stack alone stops a kernel that needs more. One under each would cost 2048 mappings a worker.
  mprotect(base_, STACK, PROT_NONE);
}

Scheduler::Stacks::~Stacks() {
  forget_stack(base_, SIZE);
  munmap(base_, SIZE);
}

context::preallocated Scheduler::Stacks::of(int thread) const {
  // Were all stacks to start at one offset in a page, their hot ends would share a few cache sets.
  const size_t stagger = thread * 5 % 64 * 64;
  context::stack_context stack;
  stack.sp = base_ + STACK + (thread + 1) * STACK - stagger;
  stack.size = STACK - stagger;
  return {stack.sp, stack.size, stack};
}

// ~Fiber unwinds a stack from another one, which the sanitizer cannot follow: the fibers are kept, for
// ever. Nothing is on their stacks by then but the loop of create_fiber.
Scheduler::~Scheduler() {
  if constexpr (ADDRESS_SANITIZER) {
    static std::mutex one_at_a_time;
    static auto* const kept = new std::vector<std::vector<Fiber>>;
    const std::lock_guard lock(one_at_a_time);
    kept->push_back(std::move(fibers_));
  }
}

void Scheduler::create_fiber(int thread) {
  fibers_[thread] =
      Fiber(std::allocator_arg, stacks_.of(thread), KeepStack(), [this, thread](Fiber&& caller) {
        arrived(nullptr);
        fibers_[from_] = std::move(caller);
        for (;;) {  // once a block, until ~Fiber unwinds it
          run_thread(thread);
          exit_thread(thread);
        }
        return Fiber();
      });
}

void Scheduler::start(void (*body)(void*), void* context, dim3 shape,
                      const std::atomic<bool>& stopped) {
  body_ = body;
  context_ = context;
  stopped_ = &stopped;
  threads_ = shape.x * shape.y * shape.z;
  if (shape.x != shape_.x || shape.y != shape_.y || shape.z != shape_.z) {
    shape_ = shape;
    for (unsigned t = 0; t < unsigned(threads_); ++t)
      index_[t] = {t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
  }
  for (; created_ < threads_; ++created_) create_fiber(created_);

  exited_ = arrived_ = 0;
  barriers_ = 0;
  abandoned_ = false;
  failure_.clear();
  std::fill_n(state_, threads_, State::fresh);
  std::fill_n(waits_, threads_, nullptr);
  std::fill_n(ready_, MAX_THREADS / WARP, 0);
  std::fill_n(yielded_, MAX_THREADS / WARP, 0);
  ready_warps_ = 0;
  for (int w = 0; w * WARP < threads_; ++w) set_ready(w, lanes_of(w));
}

void Scheduler::resume() {
  switch_to(take_next(0));
  if (failure_.empty()) return;
  const std::string failure = failure_;
  abandon();
  throw Error(failure);
}

void Scheduler::stop() { throw Error("interrupted"); }

void Scheduler::abandon() {
  abandoned_ = true;
  if (failure_.empty()) failure_ = "abandoned";
  for (int t = 0; t < threads_; ++t)
    if (state_[t] == State::started) switch_to(t);
  exited_ = threads_;
  ready_warps_ = 0;
}

void Scheduler::yield_to(int thread) {
  set_ready(warp(), 1u << lane());
  run_next(thread / WARP);
}

void Scheduler::yield_lane() {
  yielded_[warp()] |= 1u << lane();
  ready_warps_ |= 1u << warp();
  run_next(warp());
}

void Scheduler::yield_block() {
  set_ready(warp(), 1u << lane());
  switch_to(MAIN);
  if (abandoned_) throw Abandoned();
}

void Scheduler::run_thread(int thread) {
  state_[thread] = State::started;
  std::string failure;
  try {
    check_stopped();
    body_(context_);
  } catch (const Abandoned&) {
  } catch (const Error& e) {
    failure = e.what();
  } catch (const std::exception& e) {
    failure = fmt::format("{}: exception in the kernel: {}", name(thread), e.what());
  } catch (...) {
    failure = fmt::format("{}: exception in the kernel", name(thread));
  }
  if (failure_.empty()) failure_ = std::move(failure);
}

void Scheduler::exit_thread(int thread) {
  state_[thread] = State::exited;
  ++exited_;
  int next = MAIN;
  if (failure_.empty()) {
    next = take_next(warp());
    if (next == NONE) {
      next = MAIN;
      if (exited_ < threads_ && first_starved() == NONE) failure_ = why_stuck();
    }
  }
  switch_to(next);
}

GEMM_SIM_INLINE void Scheduler::barrier(std::source_location where) {
  if (arrived_ == 0) {
    line_ = where;
    same_line_ = true;
  } else if (!same_place(where, line_)) {
    same_line_ = false;
  }
  const Wait wait{"__syncthreads", where};
  if (++arrived_ < threads_) return suspend(wait);
  if (!same_line_) {
    waits_[running_] = &wait;
    fail_divergent();
  }
  check_stopped();
  arrived_ = 0;
  ++barriers_;
  for (int w = 0; w * WARP < threads_; ++w) set_ready(w, lanes_of(w));
  run_next(0);
}

std::string Scheduler::name(int thread) const {
  const uint3 i = index_[thread];
  const std::string index =
      shape_.y * shape_.z == 1 ? "" : fmt::format(" = ({}, {}, {})", i.x, i.y, i.z);
  return fmt::format("thread {}{} (warp {}, lane {})", thread, index, thread / WARP, thread % WARP);
}

// Nobody can run: whom to switch to. Throws where nothing from outside can help.
int Scheduler::when_stuck() const {
  if (first_starved() == NONE) throw Error(why_stuck());
  return MAIN;
}

int Scheduler::first_starved() const {
  for (int t = 0; t < threads_; ++t)
    if (state_[t] == State::started && waits_[t]->missing != nullptr) return t;
  return NONE;
}

std::string Scheduler::who_waits() const {
  std::string all;
  for (int t = 0; t < threads_; ++t) {
    if (state_[t] != State::started) continue;
    const Wait& wait = *waits_[t];
    const auto joins = [&](int u) {
      return state_[u] == State::started && waits_[u]->object == wait.object &&
             same_place(waits_[u]->where, wait.where);
    };
    int first = 0, others = -1;
    while (!joins(first)) ++first;
    if (first != t) continue;  // told before
    for (int u = t; u < threads_; ++u) others += joins(u);
    all += fmt::format("{}{}{} at {} ({})", all.empty() ? "" : "; ", name(t),
                       others == 0 ? " waits" : fmt::format(" and {} more wait", others), wait.what,
                       place(wait.where));
    if (wait.missing != nullptr) all += " " + wait.missing(wait.object);
  }
  return all;
}
void Scheduler::fail_divergent() const { throw Error(divergence()); }

// Called when no thread can run and not all have exited.
std::string Scheduler::why_stuck() const {
  for (int t = 0; t < threads_; ++t)
    if (state_[t] != State::exited && waits_[t]->lanes != 0) return deadlock(t);
  return divergence();
}

// Every thread waits at a __syncthreads or has exited, and they do not agree.
std::string Scheduler::divergence() const {
  const auto line_of = [&](int t) { return state_[t] == State::exited ? nullptr : waits_[t]; };
  const auto agree = [&](int a, int b) {
    const Wait *wa = line_of(a), *wb = line_of(b);
    return wa && wb ? same_place(wa->where, wb->where) : wa == wb;
  };
  const auto group = [&](int t) {
    int others = -1;
    for (int u = 0; u < threads_; ++u) others += agree(t, u);
    const bool alone = others == 0;
    return fmt::format(
        "{}{} {}", name(t), alone ? "" : fmt::format(" and {} more", others),
        line_of(t) ? fmt::format("{} at {}", alone ? "waits" : "wait", place(line_of(t)->where))
        : alone    ? "has exited"
                   : "have exited");
  };
  int waiting = 0;
  while (line_of(waiting) == nullptr) ++waiting;
  int other = 0;
  while (agree(waiting, other)) ++other;
  return fmt::format("divergent __syncthreads: {}, but {}", group(waiting), group(other));
}

// Thread t waits for lanes of its warp that never come.
std::string Scheduler::deadlock(int t) const {
  const Wait& wait = *waits_[t];
  const std::string who =
      fmt::format("deadlock: {} waits at {} ({})", name(t), wait.what, place(wait.where));
  for (uint32_t rest = wait.lanes; rest != 0; rest &= rest - 1) {
    const int u = t / WARP * WARP + std::countr_zero(rest);
    if (state_[u] == State::exited)
      return fmt::format("{} for lane {}, which has exited", who, u % WARP);
    const Wait& other = *waits_[u];
    if (other.what != wait.what || !same_place(other.where, wait.where))
      return fmt::format("{} for lane {}, which waits at {} ({})", who, u % WARP, other.what,
                         place(other.where));
  }
  return who;
}

// ------------------------------------------------------------------------------------------------

void runtime::barrier(std::source_location where) {
  Block& block = current_block("__syncthreads");
  if (this_thread.tracer != nullptr) this_thread.tracer->barrier(where);
  block.scheduler.barrier(where);
}

}  // namespace gemm::sim
