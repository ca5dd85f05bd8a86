// Small exchanges between simulated devices, right ones and the same with one planted bug each,
// compiled as plain and as traced kernels (devices_kernels.cu).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gemm::devices {

struct Scenario {
  std::string name;
  // On so many devices; throws what synchronize() throws. Returns what is wrong with the result, or
  // "".
  std::function<std::string(int devices)> run;
  // What a trace finds of a bug (sim::Finding::check), words that it says, and the mark of the line
  // that it names, "[mark]" in devices_kernels.cu; empty: the line is in the words.
  std::string check = {};
  std::vector<std::string> says = {};
  std::string mark = {};
};

// Without mistakes: plain and traced.
std::vector<Scenario> right();
std::vector<Scenario> right_traced();
// With one each, traced.
std::vector<Scenario> planted();
// The bug "no_wait" on two devices, where device 0 gathers into these 2048 floats.
std::string read_before_it_comes(float* all);
// That end in a deadlock: plain, and traced.
std::vector<Scenario> deadlocks();
std::vector<Scenario> deadlocks_traced();

}  // namespace gemm::devices
