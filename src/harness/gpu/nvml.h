// What the driver's monitoring library says about one GPU. It is loaded at run time, so a machine
// without it only knows less, as does a build without nvml.h; nothing here ever changes a setting.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/timing.h"

namespace gemm {

class Nvml {
 public:
  // The GPU with this PCI bus id ("0000:1B:00.0"), or the only one. Never throws: whatever cannot
  // be read stays unknown.
  explicit Nvml(const std::string& pci_bus_id);

  std::string driver_version() const;  // "580.159.04", empty when unknown
  std::optional<double> sm_clock_mhz() const;
  std::optional<double> max_sm_clock_mhz() const;
  std::optional<double> power_w() const;  // now, not the one-second average
  std::optional<double> power_limit_w() const;
  std::optional<double> temperature_c() const;
  std::optional<unsigned long long> throttle_reasons() const;  // bits, see throttle_names

  // The GPU's performance counters at one moment, on Hopper and later; null: unknown.
  using Counters = std::unique_ptr<void, void (*)(void*)>;
  Counters counters() const;
  // Bytes read from and written to memory between the two, in percent of what it could have moved.
  std::optional<double> memory_percent(const Counters& begin, const Counters& end) const;

 private:
  struct Api;
  [[maybe_unused]] const Api* api_ = nullptr;  // null = no NVML
  [[maybe_unused]] void* device_ = nullptr;    // nvmlDevice_t; null = not found
};

// "sw_power_cap,hw_thermal_slowdown"; "none" when no bit but "idle" is set.
std::string throttle_names(unsigned long long reasons);

// Samples a GPU every 10 ms in a thread of its own, from construction to stop().
class ConditionsSampler {
 public:
  explicit ConditionsSampler(const Nvml& nvml);
  Conditions stop();

 private:
  void sample();

  const Nvml& nvml_;
  Nvml::Counters begin_;
  std::mutex mutex_;  // of the wait between samples, which stop() ends
  std::condition_variable_any stopped_;
  std::vector<double> clocks_, powers_, temperatures_;
  std::optional<unsigned long long> reasons_;
  std::jthread thread_;  // last, so that it starts after and ends before what it writes to
};

}  // namespace gemm
