#include "library/backend.h"

namespace gemm::library {

const Backend BACKEND = Backend::sim;
const char* const BACKEND_NAME = "simulator";

int current_device() { return 0; }

const DeviceInfo& device_info(int device) {
  if (device != 0)
    throw Failure(GEMM_NO_DEVICE,
                  "there is no device " + std::to_string(device) + ": the simulator is device 0");
  static const DeviceInfo simulated{.arch = simulated_arch(), .sm = 90, .exact_arch = true};
  return simulated;
}

void on_device(int, const std::function<void()>& f) { f(); }

bool is_broken(int) { return false; }

}  // namespace gemm::library
