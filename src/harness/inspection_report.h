// Inspections on the terminal and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

// "load", "store", "atomic"
const char* verb(sim::AccessKind kind);

// A source file as the compiler was given it: from the repository's root, and its lines; none when it
// cannot be read.
std::string repository_path(const std::string& file);
const std::vector<std::string>& source_lines(const std::string& file);

// One entry of the same form as Google Benchmark's, with the lines and findings in it.
nlohmann::ordered_json to_json(const Inspection& inspection);

}  // namespace gemm
