// What sm_90 adds, feature by feature: each Case launches one small kernel of hopper_kernels.cu,
// which is compiled for the simulator and for the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace gemm::hopper {

using Bytes = std::vector<uint8_t>;
constexpr uint8_t UNWRITTEN = 0xab;  // what `out` holds before the launch

struct Case {
  std::string name;
  Bytes in, expected;
  // Reads `in` and writes `out`, of expected.size() bytes; on the GPU, in the default stream.
  std::function<void(const void* in, void* out)> run;
};

std::vector<Case> sim_cases();
std::vector<Case> traced_cases();  // the same, every access seen
// A pipeline of TMA buffers that ordinary loads read: without the wait for a full one, and released
// before it is read. Traced.
Case pipeline_without_a_wait();
Case pipeline_released_early();
// A tile that is overwritten though TMA may still read it for its store. Traced.
struct OverwrittenStore {
  Case run;
  const char* mark;  // of the line that writes, in hopper_kernels.cu; "[store]" marks the store
  const char* says;
};
std::vector<OverwrittenStore> overwritten_stores();

std::vector<Case> gpu_cases();  // the same; only in builds with CUDA

// A kernel of hopper_bugs.cu, with one mistake or none.
struct Planted {
  std::string name;
  bool bug;  // false: `run` must give `expected` under both schedules
  Bytes in, expected;
  std::function<void(const void* in, void* out)> run;
  sim::AsyncSchedule schedule;       // under which it must be caught
  std::vector<std::string> message;  // parts of what is said then
};

std::vector<Planted> planted();

}  // namespace gemm::hopper
