#include "harness/gpu/nvml.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/samples.h"

#if __has_include(<nvml.h>)
#include <dlfcn.h>
#include <nvml.h>
#define GEMM_HAS_NVML 1
#else
#define GEMM_HAS_NVML 0
#endif

namespace gemm {

#if GEMM_HAS_NVML
namespace {

// nvml.h renames a function to its latest version (nvmlInit is nvmlInit_v2): so does this.
#define GEMM_NVML_TEXT(name) #name
#define GEMM_NVML_SYMBOL(name) GEMM_NVML_TEXT(name)
#define GEMM_NVML_LOAD(function, name) load(library, function, GEMM_NVML_SYMBOL(name))

template <class F>
void load(void* library, F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
}

// Nvml's handle is opaque to those who include our header without NVIDIA's.
nvmlDevice_t handle(void* device) { return static_cast<nvmlDevice_t>(device); }
nvmlGpmSample_t sample_handle(void* sample) { return static_cast<nvmlGpmSample_t>(sample); }

}  // namespace

// A function that this driver lacks is null, and what it would tell is unknown.
struct Nvml::Api {
  decltype(nvmlInit)* init;
  decltype(nvmlSystemGetDriverVersion)* driver_version;
  decltype(nvmlDeviceGetCount)* count;
  decltype(nvmlDeviceGetHandleByIndex)* by_index;
  decltype(nvmlDeviceGetHandleByPciBusId)* by_pci_bus_id;
  decltype(nvmlDeviceGetClockInfo)* clock;
  decltype(nvmlDeviceGetMaxClockInfo)* max_clock;
  decltype(nvmlDeviceGetPowerUsage)* power;
  decltype(nvmlDeviceGetEnforcedPowerLimit)* power_limit;
  decltype(nvmlDeviceGetTemperature)* temperature;
  nvmlReturn_t (*reasons)(nvmlDevice_t, unsigned long long*);
  decltype(nvmlDeviceGetFieldValues)* fields;
  decltype(nvmlGpmSampleAlloc)* gpm_alloc;
  decltype(nvmlGpmSampleFree)* gpm_free;
  decltype(nvmlGpmSampleGet)* gpm_sample;
  decltype(nvmlGpmMetricsGet)* gpm_metrics;

  // Loaded once a process, null when there is no NVML.
  static const Api* get() {
    static Api api;
    static const bool loaded = [] {
      void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
      if (library == nullptr) return false;
      GEMM_NVML_LOAD(api.init, nvmlInit);
      GEMM_NVML_LOAD(api.driver_version, nvmlSystemGetDriverVersion);
      GEMM_NVML_LOAD(api.count, nvmlDeviceGetCount);
      GEMM_NVML_LOAD(api.by_index, nvmlDeviceGetHandleByIndex);
      GEMM_NVML_LOAD(api.by_pci_bus_id, nvmlDeviceGetHandleByPciBusId);
      GEMM_NVML_LOAD(api.clock, nvmlDeviceGetClockInfo);
      GEMM_NVML_LOAD(api.max_clock, nvmlDeviceGetMaxClockInfo);
      GEMM_NVML_LOAD(api.power, nvmlDeviceGetPowerUsage);
      GEMM_NVML_LOAD(api.power_limit, nvmlDeviceGetEnforcedPowerLimit);
      GEMM_NVML_LOAD(api.temperature, nvmlDeviceGetTemperature);
      // Its name since driver 535, and the one before.
      GEMM_NVML_LOAD(api.reasons, nvmlDeviceGetCurrentClocksEventReasons);
      if (!api.reasons) GEMM_NVML_LOAD(api.reasons, nvmlDeviceGetCurrentClocksThrottleReasons);
      GEMM_NVML_LOAD(api.fields, nvmlDeviceGetFieldValues);
      GEMM_NVML_LOAD(api.gpm_alloc, nvmlGpmSampleAlloc);
      GEMM_NVML_LOAD(api.gpm_free, nvmlGpmSampleFree);
      GEMM_NVML_LOAD(api.gpm_sample, nvmlGpmSampleGet);
      GEMM_NVML_LOAD(api.gpm_metrics, nvmlGpmMetricsGet);
      return api.init != nullptr && api.init() == NVML_SUCCESS;
    }();
    return loaded ? &api : nullptr;
  }
};

Nvml::Nvml(const std::string& pci_bus_id) : api_(Api::get()) {
  if (api_ == nullptr) return;
  nvmlDevice_t found = nullptr;
  unsigned count = 0;
  if (api_->by_pci_bus_id && api_->by_pci_bus_id(pci_bus_id.c_str(), &found) == NVML_SUCCESS)
    device_ = found;
  // A virtual machine may number its bus differently: one GPU needs no name.
  else if (api_->count && api_->by_index && api_->count(&count) == NVML_SUCCESS && count == 1 &&
           api_->by_index(0, &found) == NVML_SUCCESS)
    device_ = found;
}

std::string Nvml::driver_version() const {
  char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
  const bool known = api_ != nullptr && api_->driver_version &&
                     api_->driver_version(version, sizeof version) == NVML_SUCCESS;
  return known ? version : "";
}

std::optional<double> Nvml::sm_clock_mhz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || !api_->clock ||
      api_->clock(handle(device_), NVML_CLOCK_SM, &mhz) != NVML_SUCCESS)
    return {};
  return mhz;
}

std::optional<double> Nvml::max_sm_clock_mhz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || !api_->max_clock ||
      api_->max_clock(handle(device_), NVML_CLOCK_SM, &mhz) != NVML_SUCCESS)
    return {};
  return mhz;
}

std::optional<double> Nvml::power_w() const {
  if (device_ == nullptr) return {};
#ifdef NVML_FI_DEV_POWER_INSTANT
  nvmlFieldValue_t field{};
  field.fieldId = NVML_FI_DEV_POWER_INSTANT;
  if (api_->fields && api_->fields(handle(device_), 1, &field) == NVML_SUCCESS &&
      field.nvmlReturn == NVML_SUCCESS)
    return field.value.uiVal / 1000.0;
#endif
  unsigned mw = 0;  // an older driver: averaged over a second
  if (!api_->power || api_->power(handle(device_), &mw) != NVML_SUCCESS) return {};
  return mw / 1000.0;
}

std::optional<double> Nvml::power_limit_w() const {
  unsigned mw = 0;
  if (device_ == nullptr || !api_->power_limit ||
      api_->power_limit(handle(device_), &mw) != NVML_SUCCESS)
    return {};
  return mw / 1000.0;
}

std::optional<double> Nvml::temperature_c() const {
  unsigned celsius = 0;
  if (device_ == nullptr || !api_->temperature ||
      api_->temperature(handle(device_), NVML_TEMPERATURE_GPU, &celsius) != NVML_SUCCESS)
    return {};
  return celsius;
}

std::optional<unsigned long long> Nvml::throttle_reasons() const {
  unsigned long long bits = 0;
  if (device_ == nullptr || !api_->reasons || api_->reasons(handle(device_), &bits) != NVML_SUCCESS)
    return {};
  return bits;
}

Nvml::Counters Nvml::counters() const {
  const auto free = [](void* sample) { Api::get()->gpm_free(sample_handle(sample)); };
  nvmlGpmSample_t sample = nullptr;
  if (device_ == nullptr || !api_->gpm_alloc || !api_->gpm_free || !api_->gpm_sample ||
      !api_->gpm_metrics || api_->gpm_alloc(&sample) != NVML_SUCCESS)
    return {nullptr, nullptr};
  Counters counters(sample, free);
  if (api_->gpm_sample(handle(device_), sample) != NVML_SUCCESS) counters.reset();
  return counters;
}

std::optional<double> Nvml::memory_percent(const Counters& begin, const Counters& end) const {
  if (begin == nullptr || end == nullptr) return {};
  nvmlGpmMetricsGet_t get{};
  get.version = NVML_GPM_METRICS_GET_VERSION;
  get.numMetrics = 1;
  get.sample1 = sample_handle(begin.get());
  get.sample2 = sample_handle(end.get());
  get.metrics[0].metricId = NVML_GPM_METRIC_DRAM_BW_UTIL;
  if (api_->gpm_metrics(&get) != NVML_SUCCESS || get.metrics[0].nvmlReturn != NVML_SUCCESS)
    return {};
  const double percent = get.metrics[0].value;
  if (!std::isfinite(percent)) return {};  // no time lies between the two
  return percent;
}

#else  // built without nvml.h: everything is unknown

Nvml::Nvml(const std::string&) {}
std::string Nvml::driver_version() const { return ""; }
std::optional<double> Nvml::sm_clock_mhz() const { return {}; }
std::optional<double> Nvml::max_sm_clock_mhz() const { return {}; }
std::optional<double> Nvml::power_w() const { return {}; }
std::optional<double> Nvml::power_limit_w() const { return {}; }
std::optional<double> Nvml::temperature_c() const { return {}; }
std::optional<unsigned long long> Nvml::throttle_reasons() const { return {}; }
Nvml::Counters Nvml::counters() const { return {nullptr, nullptr}; }
std::optional<double> Nvml::memory_percent(const Counters&, const Counters&) const { return {}; }
#endif

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
        std::unique_lock lock(mutex_);
        while (!stop.stop_requested()) {
          sample();
          stopped_.wait_for(lock, stop, std::chrono::milliseconds(10), [] { return false; });
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
  const auto median = [](const std::vector<double>& samples) {
    return samples.empty() ? -1.0 : quantile(samples, 0.5);
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
