// Where the library computes: the GPU or the simulator, one of which is linked.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "gemm/gemm.h"
#include "gemm_types.h"
#include "plan/arch.h"

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

extern const Backend BACKEND;
extern const char* const BACKEND_NAME;

// The calling thread's. Throws Failure.
int current_device();
// Throws Failure when there is no such device.
const DeviceInfo& device_info(int device);
// Calls f with the device as the current one. What f does may happen while this thread captures a
// stream.
void on_device(int device, const std::function<void()>& f);
// Whether the device's context is broken: no launch will ever succeed.
bool is_broken(int device);

}  // namespace gemm::library
