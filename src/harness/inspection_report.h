// Inspections on the terminal and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/inspector.h"

namespace gemm {

// The summary: one line a rung, a heading for each problem.
class InspectionTable {
 public:
  void add(const Inspection& inspection);

 private:
  std::string group_;
};

// The lines that move the most, with their source.
void print_lines(const Inspection& inspection);

// The first request of each line of the watched warp, lane by lane.
void print_requests(const Inspection& inspection);

// One entry of the same form as Google Benchmark's, with the lines and findings in it.
nlohmann::ordered_json to_json(const Inspection& inspection);

}  // namespace gemm
