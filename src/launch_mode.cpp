#include "launch_mode.h"

#include <algorithm>
#include <cstdint>

namespace gemm {
namespace {

constinit thread_local LaunchMode mode_of_this_thread;

// Pools hand out memory in units of so many bytes.
size_t whole_units(size_t bytes) { return (bytes + 511) / 512 * 512; }

}  // namespace

LaunchMode& launch_mode() { return mode_of_this_thread; }

void* LaunchMode::take(size_t bytes) {
  workspace += whole_units(bytes);
  workspace_peak = std::max(workspace_peak, workspace);
  return reinterpret_cast<void*>(uintptr_t{1} << 32);  // aligned, and not null
}

void LaunchMode::give(size_t bytes) { workspace -= whole_units(bytes); }

LaunchModeScope::LaunchModeScope(const LaunchMode& mode) : before_(mode_of_this_thread) {
  mode_of_this_thread = mode;
}

LaunchModeScope::~LaunchModeScope() { mode_of_this_thread = before_; }

}  // namespace gemm
