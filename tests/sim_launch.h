// What the tests of the simulator have in common.
#pragma once

#include <gtest/gtest.h>

#include <source_location>
#include <string>

#include "rung.h"
#include "sim/simulator.h"

namespace gemm {

// "sim_test.cpp:12", of the file that asks.
inline std::string line(int n, std::source_location here = std::source_location::current()) {
  const std::string file = here.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(n);
}

// What launching says when it throws; empty if it does not.
template <class... Params, class... Args>
std::string error_of(void (*kernel)(Params...), int64_t grid, dim3 block, Args... args) {
  try {
    gemm::launch(kernel, grid, block, {}, nullptr, args...);
  } catch (const sim::Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "";
}

// Restores the default number of OS threads.
struct OsThreads {
  explicit OsThreads(int n) { sim::set_threads(n); }
  ~OsThreads() { sim::set_threads(0); }
};

}  // namespace gemm
