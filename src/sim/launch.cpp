// A launch: blocks handed out in order to a pool of OS threads that run nothing else.
#include "sim/launch.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "sim/block.h"
#include "sim/caller.h"
#include "sim/cluster.h"
#include "sim/diagnosis.h"
#include "sim/runtime.h"
#include "sim/source_lines.h"

namespace gemm::sim {

void check_launch(const LaunchConfig& config) {
  const dim3 b = config.block;
  const uint64_t threads = uint64_t{b.x} * b.y * b.z;
  if (config.grid < 1 || config.grid > std::numeric_limits<int32_t>::max())
    fail("launch: a grid of {} blocks; allowed: 1 to 2147483647", config.grid);
  if (b.x < 1 || b.y < 1 || b.z < 1 || b.x > MAX_THREADS || b.y > MAX_THREADS || b.z > 64 ||
      threads > MAX_THREADS)
    fail("launch: a block of {} x {} x {} threads; allowed: 1 to {}, at most 64 along z", b.x, b.y,
         b.z, MAX_THREADS);
  if (config.smem > MAX_SHARED)
    fail("launch: {} bytes of dynamic shared memory; allowed: up to {}", config.smem, MAX_SHARED);
  if (config.cluster < 1 || config.cluster > 16 || config.grid % config.cluster != 0)
    fail("launch: clusters of {} blocks in a grid of {}; allowed: 1 to 16, dividing the grid",
         config.cluster, config.grid);
}

void work(Job& job, Cluster& cluster, Outside* outside) {
  LaunchStats stats;
  const LaunchConfig& config = job.config;
  const int threads = static_cast<int>(config.block.x * config.block.y * config.block.z);
  const Cluster::Work work{job.body,          job.context,    config.block,
                           config.smem,       config.cluster, job.schedule,
                           job.traced.device, outside,        &job.stopped};
  std::vector<std::unique_ptr<Tracer>> tracers(config.cluster);
  const auto begin = [&](Block& block) {
    block.pdl = config.pdl;
    block.waited.assign(threads, false);
    if (job.session == nullptr) return;
    std::unique_ptr<Tracer>& tracer = tracers[block.rank];
    if (tracer == nullptr)
      tracer = std::make_unique<Tracer>(*job.session, job.traced, block.scheduler, block.shared);
    tracer->begin_block(block.index, block.rank, threads);
    block.tracer = tracer.get();
  };
  const auto end = [&](Block& block) {
    if (block.pdl && std::ranges::count(block.waited, true) == 0)
      fail("ends without grid_dependency_wait: the next kernel could overtake the one before");
    if (block.tracer != nullptr) block.tracer->end_block();
    stats.barriers = std::max(stats.barriers, block.scheduler.barriers());
    stats.collectives += block.collectives.count;
    stats.copies += block.copies.count;
    stats.copy_bytes += block.copies.bytes;
    stats.tma_asked += block.tma_asked;
    stats.tma_multicast += block.tma_multicast;
    stats.tma_delivered += block.tma_delivered;
    // One block's variables are the kernel's.
    if (block.index == job.cluster(0) * config.cluster) block.shared.check_statics();
  };
  cluster.begin_launch();
  this_thread.block_dim = config.block;
  this_thread.grid_dim = {static_cast<unsigned>(config.grid), 1, 1};
  for (;;) {
    int64_t first = 0;
    {
      std::lock_guard lock(job.mutex);
      if (job.next >= job.clusters()) break;
      first = job.cluster(job.next++) * config.cluster;
      // Clusters are handed out in order: all below a failed one are done or running, and finish.
      if (first > job.failed_block) break;
    }
    try {
      cluster.run(work, first, begin, end);
    } catch (const Cluster::Failure& e) {
      std::lock_guard lock(job.mutex);
      if (e.block < job.failed_block) {
        job.failed_block = e.block;
        job.failure = e.what();
      }
      break;
    }
  }
  std::lock_guard lock(job.mutex);
  job.stats.barriers = std::max(job.stats.barriers, stats.barriers);
  job.stats.collectives += stats.collectives;
  job.stats.copies += stats.copies;
  job.stats.copy_bytes += stats.copy_bytes;
  job.stats.tma_asked += stats.tma_asked;
  job.stats.tma_multicast += stats.tma_multicast;
  job.stats.tma_delivered += stats.tma_delivered;
}

namespace {

class Pool {
 public:
  // Runs the job on `n` workers, and waits for them.
  void run(Job& job, int n) {
    while (static_cast<int>(workers_.size()) < n) {
      const int id = static_cast<int>(workers_.size());
      workers_.emplace_back([this, id](std::stop_token stop) { serve(stop, id); });
    }
    std::unique_lock lock(mutex_);
    job_ = &job;
    wanted_ = busy_ = n;
    ++generation_;
    start_.notify_all();
    while (!done_.wait_for(lock, BETWEEN_QUESTIONS, [&] { return busy_ == 0; })) {
      lock.unlock();
      if (asked_to_stop()) job.stopped = true;
      lock.lock();
    }
  }

 private:
  void serve(std::stop_token stop, int id) {
    Cluster cluster;
    int64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (start_.wait(lock, stop, [&] { return generation_ != seen; })) {
      seen = generation_;
      if (id >= wanted_) continue;
      Job& job = *job_;
      lock.unlock();
      work(job, cluster, nullptr);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any start_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  int wanted_ = 0, busy_ = 0;
  int64_t generation_ = 0;
  std::vector<std::jthread> workers_;  // last: they end before the rest goes
};

std::timed_mutex turn;  // one launch at a time
std::atomic<int (*)()> interrupt = nullptr;
thread_local bool asking = false;  // in interrupt's function, which runs handlers of signals
// Made by the first launch, and left behind in a child of fork(), which has none of its threads.
std::unique_ptr<Pool>& pool() {
  static std::unique_ptr<Pool> made;
  return made;
}

std::mutex launch_mutex;  // of what follows
int os_threads = 0;
AsyncSchedule async_schedule = AsyncSchedule::lazy_copies;
TraceSession* session = nullptr;
LaunchStats stats_of_last_launch, stats_of_main_launch;

}  // namespace

// A child of fork() makes a pool of its own, and whoever had the turn is not there.
[[maybe_unused]] const int at_fork =
    pthread_atfork([] { launch_mutex.lock(); }, [] { launch_mutex.unlock(); },
                   [] {
                     launch_mutex.unlock();
                     new (&turn) std::timed_mutex;
                     static_cast<void>(pool().release());
                   });

// The job has ended. launch_mutex.
static void count(Job& job) {
  const LaunchConfig& config = job.config;
  if (job.stopped) throw Error("interrupted");
  job.stats.blocks = config.grid;
  job.stats.threads_per_block = static_cast<int>(config.block.x * config.block.y * config.block.z);
  if (job.session != nullptr)
    job.session->launched(job.traced.index, job.stats, job.clusters() * config.cluster);
  if (job.failed_block != NO_BLOCK) {
    if (job.session != nullptr && job.traced.device < 0)
      job.session->result.failed_block = job.failed_block;
    throw Error(job.failure);
  }
  stats_of_last_launch = job.stats;
  if (outweighs(job.stats, stats_of_main_launch)) stats_of_main_launch = job.stats;
}

LaunchStats last_launch() {
  std::lock_guard lock(launch_mutex);
  return stats_of_last_launch;
}

LaunchStats main_launch() {
  std::lock_guard lock(launch_mutex);
  return stats_of_main_launch;
}

void add_launch(const LaunchStats& stats) {
  std::lock_guard lock(launch_mutex);
  stats_of_last_launch = stats;
  if (outweighs(stats, stats_of_main_launch)) stats_of_main_launch = stats;
}

void clear_launches() {
  std::lock_guard lock(launch_mutex);
  stats_of_main_launch = {};
}

void set_threads(int n) {
  if (n < 0) fail("the simulator cannot run on {} OS threads", n);
  std::lock_guard lock(launch_mutex);
  os_threads = n;
}

void set_async_schedule(AsyncSchedule schedule) {
  std::lock_guard lock(launch_mutex);
  async_schedule = schedule;
}

void set_session(TraceSession* s) {
  std::lock_guard lock(launch_mutex);
  session = s;
}

void set_interrupt(int (*asked)()) { interrupt = asked; }

bool asked_to_stop() {
  int (*const asked)() = interrupt.load(std::memory_order_relaxed);
  if (asked == nullptr || gettid() != getpid()) return false;  // the main thread alone
  static std::chrono::steady_clock::time_point last;
  const auto now = std::chrono::steady_clock::now();
  if (now - last < BETWEEN_QUESTIONS) return false;
  last = now;
  asking = true;
  const bool stops = asked() != 0;
  asking = false;
  return stops;
}

void runtime::launch(void (*body)(void*), void* context, const LaunchConfig& config) {
  if (this_thread.block != nullptr) fail("launch called inside a kernel");
  if (asking) fail("a signal's handler cannot compute while its thread computes in the simulator");
  check_launch(config);
  std::unique_lock own_turn(turn, std::defer_lock);
  do {
    if (asked_to_stop()) throw Error("interrupted");
  } while (!own_turn.try_lock_for(BETWEEN_QUESTIONS));
  std::unique_lock lock(launch_mutex);
  Job job;
  job.body = body;
  job.context = context;
  job.config = config;
  job.schedule = async_schedule;
  std::vector<int64_t> some;
  if (session != nullptr) {
    job.session = session;
    for (const int64_t b : session->options.blocks)  // ascending
      if (b < config.grid && (some.empty() || some.back() != b / config.cluster))
        some.push_back(b / config.cluster);
    if (!session->options.blocks.empty()) job.some = &some;
  }
  begin(job);
  // A simulated thread's stack takes two of the 65530 mappings that Linux gives a process.
  constexpr int64_t MOST_STACKS = 16384;
  const int64_t stacks = int64_t{config.block.x} * config.block.y * config.block.z * config.cluster;
  const int threads = os_threads != 0 ? os_threads
                                      : static_cast<int>(std::clamp<int64_t>(
                                            MOST_STACKS / std::max<int64_t>(stacks, 1), 1,
                                            std::max(1u, std::thread::hardware_concurrency())));
  lock.unlock();
  if (pool() == nullptr) pool() = std::make_unique<Pool>();
  pool()->run(job, static_cast<int>(std::min<int64_t>(threads, job.clusters())));
  lock.lock();
  count(job);
}

LaunchSettings launch_settings() {
  std::lock_guard lock(launch_mutex);
  return {async_schedule, session};
}

void begin(Job& job) {
  if (job.session != nullptr) job.traced.index = job.session->begin_launch();
}

void finish(Job& job) {
  std::lock_guard lock(launch_mutex);
  count(job);
}

void runtime::grid_dependency_wait() {
  Block& block = current_block("griddepcontrol.wait");
  block.waited[block.scheduler.thread()] = true;
}

namespace {

// What lies around a workspace, so that a stray access is told by its distance.
constexpr size_t WORKSPACE_GUARD = 4096;
std::map<void*, size_t> workspaces;  // by their first byte; launch_mutex

}  // namespace

void* runtime::workspace_allocate(size_t bytes) {
  const size_t all = (bytes + 2 * WORKSPACE_GUARD + 255) / 256 * 256;
  char* const allocation = static_cast<char*>(std::aligned_alloc(256, all));
  if (allocation == nullptr) throw std::bad_alloc();
  std::memset(allocation, 0xff, all);
  char* const first = allocation + WORKSPACE_GUARD;
  std::lock_guard lock(launch_mutex);
  workspaces[first] = bytes;
  if (session != nullptr) session->add_workspace(allocation, all, first, bytes);
  return first;
}

namespace {

void release_workspace(void* p) {
  std::lock_guard lock(launch_mutex);
  workspaces.erase(p);
  if (session != nullptr) session->remove_workspace(p);
  std::free(static_cast<char*>(p) - WORKSPACE_GUARD);
}

void zero_workspace(void* p) {
  std::lock_guard lock(launch_mutex);
  std::memset(p, 0, workspaces.at(p));
  if (session != nullptr) session->zero_workspace(p);
}

}  // namespace

void runtime::workspace_release(void* p, void* stream) {
  is_queued(stream) ? queue_workspace(stream, release_workspace, p) : release_workspace(p);
}

void runtime::workspace_zero(void* p, void* stream) {
  is_queued(stream) ? queue_workspace(stream, zero_workspace, p) : zero_workspace(p);
}

// " (mine.cu:57)"; found on a stack of its own, as libbacktrace needs more than a simulated thread has.
static std::string line_of(uintptr_t pc) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  Place found;
  std::thread([&] { found = place_of(pc); }).join();
  return found.line.line == 0 ? "" : fmt::format(" ({})", to_string(found));
}

void runtime::misaligned(const void* address, int bytes) {
  const Block* const block = this_thread.block;
  if (block == nullptr) fail("{}-byte access to {}, which is not aligned", bytes, address);
  const Scheduler& s = block->scheduler;
  fail("{}: {}-byte access to {}{}, which is not aligned", s.name(s.thread()), bytes,
       block->place_of(address), line_of(GEMM_SIM_CALLER));
}

}  // namespace gemm::sim
