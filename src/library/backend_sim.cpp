#include <cstring>

#include "library/backend.h"
#include "sim/simulator.h"

namespace gemm::library {
namespace {

const DeviceInfo& device_info(int device) {
  if (device != 0)
    throw Failure(GEMM_NO_DEVICE,
                  "there is no device " + std::to_string(device) + ": the simulator is device 0");
  static const DeviceInfo simulated{.arch = simulated_arch(), .sm = 90, .exact_arch = true};
  return simulated;
}

}  // namespace

const Computer SIMULATOR{
    .backend = Backend::sim,
    .name = "simulator",
    .current_device = [] { return 0; },
    .device_info = device_info,
    .on_device = [](int, const std::function<void()>& f) { f(); },
    .is_broken = [](int) { return false; },
    .gpu_count = [] { return 0; },
    .read = [](int, void*, void* host, const void* p,
               size_t bytes) { std::memcpy(host, p, bytes); },
    .make_fabric = [](const std::vector<int>& devices,
                      std::string&) { return make_sim_fabric(static_cast<int>(devices.size())); },
    .make_rank = [](int,
                    std::shared_ptr<RankGroup> group) { return make_sim_rank(std::move(group)); },
    .identity = [](int) { return std::string(); },
    .check_stream = [](int, void*) {}};

}  // namespace gemm::library

gemm_status gemm_set_interrupt(int (*asked)(void)) {
  gemm::sim::set_interrupt(asked);
  return GEMM_OK;
}
