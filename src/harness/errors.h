// Errors that end the program with one line for its user. Those of a device stand in device.h.
#pragma once

#include <stdexcept>

namespace gemm {

// The user's input cannot be used. what() is one line that names what is allowed; the program exits
// with 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Results cannot be written, as on a full disk. what() is one line that says where they are; the
// program exits with 3.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A result that was right is wrong after it was timed. what() names the rung and what was found; the
// program exits with 1.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace gemm
