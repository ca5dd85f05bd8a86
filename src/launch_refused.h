// The exception of a launch that was refused.
#pragma once

#include <stdexcept>
#include <string>

#include "launch_status.h"

namespace gemm {

// A kernel's launch was refused: nothing of it runs, and what() says why in one line. Rungs' launch
// functions throw it until they return the status themselves.
struct LaunchRefused : std::runtime_error {
  LaunchRefused(const LaunchStatus& s, const std::string& what)
      : std::runtime_error(what), status(s) {}
  LaunchStatus status;
};

}  // namespace gemm
