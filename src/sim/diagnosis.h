// How the simulator words what went wrong.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <source_location>
#include <string>
#include <utility>

#include "sim/simulator.h"

namespace gemm::sim {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// "v02_block_tile.cu:57"
inline std::string place(const std::source_location& where) {
  const char* slash = std::strrchr(where.file_name(), '/');
  return fmt::format("{}:{}", slash ? slash + 1 : where.file_name(), where.line());
}

// Two instantiations of one template have different location objects for one line.
inline bool same_place(const std::source_location& a, const std::source_location& b) {
  if (std::memcmp(&a, &b, sizeof a) == 0) return true;  // the same object, the usual case
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace gemm::sim
