// One launch while it runs: which blocks are left, and what became of those that ran. Internal to
// the runtime: launch.cpp runs launches one after the other, devices.cpp several at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/runtime.h"
#include "sim/simulator.h"
#include "sim/tracer.h"

namespace gemm::sim {

constexpr int64_t NO_BLOCK = std::numeric_limits<int64_t>::max();

struct Job {
  void (*body)(void*) = nullptr;
  void* context = nullptr;
  LaunchConfig config = {};
  AsyncSchedule schedule = AsyncSchedule::lazy_copies;
  TraceSession* session = nullptr;    // null: not traced
  std::atomic<bool> stopped = false;  // by set_interrupt's function: blocks end where they are
  const std::vector<int64_t>* some = nullptr;  // the clusters to run; null: all
  TracedLaunch traced = {};                    // what a Tracer knows of it

  // The i-th cluster to run, of how many there are.
  int64_t clusters() const {
    return some ? static_cast<int64_t>(some->size()) : config.grid / config.cluster;
  }
  int64_t cluster(int64_t i) const { return some ? (*some)[i] : i; }

  std::mutex mutex;                 // of what follows
  int64_t next = 0;                 // cluster to run
  int64_t failed_block = NO_BLOCK;  // the lowest so far; those above it need not run
  std::string failure;              // of failed_block
  LaunchStats stats;
};

// Throws for what a GPU refuses.
void check_launch(const LaunchConfig& config);
// Runs clusters of the job until there are none left. By an OS thread that runs nothing else.
// `outside`: where its threads wait for flags; null: they cannot.
void work(Job& job, Cluster& cluster, Outside* outside);

// How long a thread waits before it asks again whether to stop.
constexpr std::chrono::milliseconds BETWEEN_QUESTIONS(50);
// Whether set_interrupt's function wants the launch to end. Costs a look at the clock.
bool asked_to_stop();

// The settings of launches that begin now.
struct LaunchSettings {
  AsyncSchedule schedule;
  TraceSession* session;  // null: not traced
};
LaunchSettings launch_settings();
// Before the job begins, and when it has ended, with what all of its blocks did: counts it, and
// throws its failure if it has one.
void begin(Job& job);
void finish(Job& job);

}  // namespace gemm::sim
