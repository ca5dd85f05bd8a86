// What a device's failures are thrown as. what() is one line.
#pragma once

#include <stdexcept>

namespace gemm {

// A kernel could not be launched, or (simulator) its diagnosis. The device can go on.
struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A kernel or a library broke the device's context: nothing can run on it in this process any more.
struct DeviceFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Where each rank of a product has a process: another one failed, has ended or did not come.
struct RankFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace gemm
