#include "harness/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace gemm {
namespace {

// The few names of NVML's public interface (docs.nvidia.com/deploy/nvml-api) that are used here.
constexpr int SUCCESS = 0;
constexpr int CLOCK_SM = 1;
constexpr int TEMPERATURE_GPU = 0;
constexpr unsigned POWER_INSTANT = 186;  // NVML_FI_DEV_POWER_INSTANT, mW

struct FieldValue {  // nvmlFieldValue_t
  unsigned field_id, scope_id;
  long long timestamp, latency_us;
  int value_type, result;
  union {
    double d;
    unsigned ui;
    unsigned long long ull;
  } value;
};

constexpr unsigned MEMORY_BANDWIDTH = 10;  // NVML_GPM_METRIC_DRAM_BW_UTIL, percent

struct GpmMetric {  // nvmlGpmMetric_t
  unsigned id;
  int result = SUCCESS;
  double value = 0;
  const char *short_name = nullptr, *long_name = nullptr, *unit = nullptr;
};

struct GpmMetrics {  // nvmlGpmMetricsGet_t, of which NVML reads `count` metrics
  unsigned version = 1, count = 1;
  void *begin, *end;
  GpmMetric metrics[1];
};

template <class F>
void load(void* library, F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
}

}  // namespace

// A function that this driver lacks is null, and what it would tell is unknown.
struct Nvml::Api {
  int (*init)();
  int (*driver_version)(char*, unsigned);
  int (*count)(unsigned*);
  int (*by_index)(unsigned, void**);
  int (*by_pci_bus_id)(const char*, void**);
  int (*clock)(void*, int, unsigned*);
  int (*max_clock)(void*, int, unsigned*);
  int (*power)(void*, unsigned*);
  int (*power_limit)(void*, unsigned*);
  int (*temperature)(void*, int, unsigned*);
  int (*reasons)(void*, unsigned long long*);
  int (*fields)(void*, int, FieldValue*);
  int (*gpm_alloc)(void**);
  int (*gpm_free)(void*);
  int (*gpm_sample)(void*, void*);
  int (*gpm_metrics)(GpmMetrics*);

  // Loaded once a process, null when there is no NVML.
  static const Api* get() {
    static Api api;
    static const bool loaded = [] {
      void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
      if (library == nullptr) return false;
      load(library, api.init, "nvmlInit_v2");
      load(library, api.driver_version, "nvmlSystemGetDriverVersion");
      load(library, api.count, "nvmlDeviceGetCount_v2");
      load(library, api.by_index, "nvmlDeviceGetHandleByIndex_v2");
      load(library, api.by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
      load(library, api.clock, "nvmlDeviceGetClockInfo");
      load(library, api.max_clock, "nvmlDeviceGetMaxClockInfo");
      load(library, api.power, "nvmlDeviceGetPowerUsage");
      load(library, api.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
      load(library, api.temperature, "nvmlDeviceGetTemperature");
      // Renamed to ...ClocksEventReasons in newer drivers, which keep this name too.
      load(library, api.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
      load(library, api.fields, "nvmlDeviceGetFieldValues");
      load(library, api.gpm_alloc, "nvmlGpmSampleAlloc");
      load(library, api.gpm_free, "nvmlGpmSampleFree");
      load(library, api.gpm_sample, "nvmlGpmSampleGet");
      load(library, api.gpm_metrics, "nvmlGpmMetricsGet");
      return api.init != nullptr && api.init() == SUCCESS;
    }();
    return loaded ? &api : nullptr;
  }
};

Nvml::Nvml(const std::string& pci_bus_id) : api_(Api::get()) {
  if (api_ == nullptr) return;
  if (api_->by_pci_bus_id && api_->by_pci_bus_id(pci_bus_id.c_str(), &device_) == SUCCESS) return;
  device_ = nullptr;
  unsigned count = 0;  // a virtual machine may number its bus differently: one GPU needs no name
  if (api_->count && api_->by_index && api_->count(&count) == SUCCESS && count == 1 &&
      api_->by_index(0, &device_) != SUCCESS)
    device_ = nullptr;
}

std::string Nvml::driver_version() const {
  char version[96] = "";
  const bool known = api_ != nullptr && api_->driver_version &&
                     api_->driver_version(version, sizeof version) == SUCCESS;
  return known ? version : "";
}

std::optional<double> Nvml::sm_clock_mhz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || !api_->clock || api_->clock(device_, CLOCK_SM, &mhz) != SUCCESS)
    return {};
  return mhz;
}

std::optional<double> Nvml::max_sm_clock_mhz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || !api_->max_clock || api_->max_clock(device_, CLOCK_SM, &mhz) != SUCCESS)
    return {};
  return mhz;
}

std::optional<double> Nvml::power_w() const {
  if (device_ == nullptr) return {};
  FieldValue field{};
  field.field_id = POWER_INSTANT;
  if (api_->fields && api_->fields(device_, 1, &field) == SUCCESS && field.result == SUCCESS)
    return field.value.ui / 1000.0;
  unsigned mw = 0;  // an older driver: averaged over a second
  if (!api_->power || api_->power(device_, &mw) != SUCCESS) return {};
  return mw / 1000.0;
}

std::optional<double> Nvml::power_limit_w() const {
  unsigned mw = 0;
  if (device_ == nullptr || !api_->power_limit || api_->power_limit(device_, &mw) != SUCCESS)
    return {};
  return mw / 1000.0;
}

std::optional<double> Nvml::temperature_c() const {
  unsigned celsius = 0;
  if (device_ == nullptr || !api_->temperature ||
      api_->temperature(device_, TEMPERATURE_GPU, &celsius) != SUCCESS)
    return {};
  return celsius;
}

std::optional<unsigned long long> Nvml::throttle_reasons() const {
  unsigned long long bits = 0;
  if (device_ == nullptr || !api_->reasons || api_->reasons(device_, &bits) != SUCCESS) return {};
  return bits;
}

Nvml::Counters Nvml::counters() const {
  void* sample = nullptr;
  if (device_ == nullptr || !api_->gpm_alloc || !api_->gpm_free || !api_->gpm_sample ||
      !api_->gpm_metrics || api_->gpm_alloc(&sample) != SUCCESS)
    return {nullptr, nullptr};
  Counters counters(sample, api_->gpm_free);
  if (api_->gpm_sample(device_, sample) != SUCCESS) counters.reset();
  return counters;
}

std::optional<double> Nvml::memory_percent(const Counters& begin, const Counters& end) const {
  if (begin == nullptr || end == nullptr) return {};
  GpmMetrics m{.begin = begin.get(), .end = end.get(), .metrics = {{.id = MEMORY_BANDWIDTH}}};
  if (api_->gpm_metrics(&m) != SUCCESS || m.metrics[0].result != SUCCESS) return {};
  return m.metrics[0].value;
}

std::string throttle_names(unsigned long long reasons) {
  // nvmlClocksEventReason*; bit 0, "GPU idle", slows nothing down.
  constexpr const char* NAMES[] = {
      nullptr,         "applications_clocks", "sw_power_cap",        "hw_slowdown",
      "sync_boost",    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake",
      "display_clocks"};
  std::string names;
  for (size_t bit = 1; bit < std::size(NAMES); ++bit)
    if (reasons >> bit & 1) names += (names.empty() ? "" : ",") + std::string(NAMES[bit]);
  return names.empty() ? "none" : names;
}

ConditionsSampler::ConditionsSampler(const Nvml& nvml)
    : nvml_(nvml), begin_(nvml.counters()), thread_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          sample();
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      }) {}

void ConditionsSampler::sample() {
  if (const auto mhz = nvml_.sm_clock_mhz()) clocks_.push_back(*mhz);
  if (const auto watts = nvml_.power_w()) powers_.push_back(*watts);
  if (const auto celsius = nvml_.temperature_c()) temperatures_.push_back(*celsius);
  if (const auto bits = nvml_.throttle_reasons()) reasons_ = reasons_.value_or(0) | *bits;
}

Conditions ConditionsSampler::stop() {
  thread_.request_stop();
  thread_.join();
  const auto median = [](std::vector<double>& samples) {
    if (samples.empty()) return -1.0;
    const auto middle = samples.begin() + samples.size() / 2;
    std::nth_element(samples.begin(), middle, samples.end());
    return *middle;
  };
  Conditions c;
  c.memory_percent = nvml_.memory_percent(begin_, nvml_.counters()).value_or(-1);
  if (!clocks_.empty()) c.sm_clock_min_mhz = *std::min_element(clocks_.begin(), clocks_.end());
  c.sm_clock_mhz = median(clocks_);
  c.power_w = median(powers_);
  c.temperature_c = median(temperatures_);
  if (reasons_) c.throttle = throttle_names(*reasons_);
  return c;
}

}  // namespace gemm
