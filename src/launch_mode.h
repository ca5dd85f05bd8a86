// How the calling thread's launches go. A rung's launch is host code that nobody else can see into:
// which kernels it loads, which memory it takes. Prepared, it does all of that but the launch.
#pragma once

#include <cstddef>

namespace gemm {

struct LaunchMode {
  // The GPU of the stream, where the caller knows it. -1: the stream is asked at each launch.
  int device = -1;
  // Load the kernels and set their limits, count the workspaces; launch and allocate nothing. So a
  // later launch does nothing that a captured stream could refuse.
  bool prepare = false;
  // That has been done for this call: limits are set. With `prepare`: nothing is left to do, and what
  // a launch takes is the host's time before CUDA's own (bench/host_time).
  bool prepared = false;
  // The one stream that launches may go to: what a device that verifies or times a rung waits for.
  // Null: any.
  void* stream = nullptr;
  // While preparing: bytes of the workspaces that live now, and the most that lived at once.
  size_t workspace = 0, workspace_peak = 0;

  // Stands for a workspace. Nothing reads or writes there.
  void* take(size_t bytes);
  void give(size_t bytes);
};

// The calling thread's.
LaunchMode& launch_mode();

// Sets the calling thread's mode while this object lives.
class LaunchModeScope {
 public:
  explicit LaunchModeScope(const LaunchMode& mode);
  ~LaunchModeScope();
  LaunchModeScope(const LaunchModeScope&) = delete;
  LaunchModeScope& operator=(const LaunchModeScope&) = delete;

 private:
  const LaunchMode before_;
};

}  // namespace gemm
