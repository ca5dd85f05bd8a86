// Who asked for something that may fail at once or later: a thread, an instruction and its line.
#pragma once

#include <source_location>
#include <string>
#include <utility>

#include "sim/diagnosis.h"

namespace gemm::sim {

struct Block;

struct Caller {
  const Block* block;
  int thread;
  const char* what;  // "mbarrier.arrive"
  std::source_location where;

  std::string thread_name() const;  // "thread 5 (warp 0, lane 5)"
  std::string line() const { return fmt::format("{} ({})", what, place(where)); }
  std::string name() const;  // "thread 5 (warp 0, lane 5): mbarrier.arrive (v20_tma.cu:57)"

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(name() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
};

// The running thread. Throws Error outside of kernels.
Caller caller(const char* what, std::source_location where);

}  // namespace gemm::sim
