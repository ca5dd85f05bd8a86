// Where the library computes: the simulator, which is always linked, and the GPU.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gemm/gemm.h"
#include "gemm_types.h"
#include "plan/arch.h"
#include "sharded/fabric.h"

namespace gemm::library {

// A call cannot be done. what() is one line.
struct Failure : std::runtime_error {
  Failure(gemm_status s, const std::string& what) : std::runtime_error(what), status(s) {}
  gemm_status status;
};

// What planning asks of a device.
struct DeviceInfo {
  Arch arch;
  int sm = 0;               // compute capability: 90 = 9.0
  bool exact_arch = false;  // this library has code for that very architecture (sm_90a)
};

// What computes, and its devices. Of functions that take a device it is one that exists.
struct Computer {
  Backend backend;
  const char* name;
  // The calling thread's. Throws Failure.
  int (*current_device)();
  // Throws Failure when there is no such device, or no kernel for it.
  const DeviceInfo& (*device_info)(int device);
  // Calls f with the device as the current one. What f does may happen while this thread captures a
  // stream.
  void (*on_device)(int device, const std::function<void()>& f);
  // Whether the device's context is broken: no launch will ever succeed.
  bool (*is_broken)(int device);
  int (*gpu_count)();
  // Waits for the stream, and copies what lies in the device's memory. Throws Failure.
  void (*read)(int device, void* stream, void* host, const void* p, size_t bytes);
  // Several devices by rank; null where they do not reach each other's memory, and `why`.
  std::unique_ptr<Fabric> (*make_fabric)(const std::vector<int>& devices, std::string& why);
  // One rank of several processes.
  std::unique_ptr<Fabric> (*make_rank)(int device, std::shared_ptr<RankGroup> group);
  // What tells the device from all others of the host, in up to 16 bytes; empty: simulated ones.
  std::string (*identity)(int device);
  // Throws Failure where the stream is another device's, or is being captured.
  void (*check_stream)(int device, void* stream);
};

extern const Computer SIMULATOR;
// The GPUs; null in a library that has none in it.
extern const Computer* const GPUS;

}  // namespace gemm::library
