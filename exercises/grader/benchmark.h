// For tests of benchmark drivers: kernels that are right, wrong or slow on purpose, and the log of
// what a driver did with them.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench.h"

namespace gemm::lab {

// What a kernel does in place of C = A * B.
enum class Fault {
  none,
  writes_nothing,
  writes_zeros,
  adds_to_c,
  no_last_row,
  half_of_k,
  writes_nan
};

struct KernelModel {
  std::string name;
  Type type;
  double slowness;
  Fault fault = Fault::none;
};

// What a driver is given: kernels, of which the first is the one in question and the others are the
// libraries.
struct Task {
  std::vector<KernelModel> kernels;
  Sizes sizes;
};
nlohmann::json to_json(const Task& task);
Task task_of(const nlohmann::json& j);

struct Launch {
  int kernel;
  double warm;  // share of the bytes that L2 held
  bool zeros;   // A or B held nothing else
  bool first;   // of this kernel
  bool timed;
};

class Machine::Model {
 public:
  std::vector<Kernel> add_kernels(const std::vector<KernelModel>& kernels);

  // The time of a launch as a fair benchmark sees it: inputs not zero, L2 cold, code loaded.
  double cold_time(const Kernel& kernel, Sizes sizes) const;
  const std::vector<Launch>& launches() const { return launches_; }

 private:
  friend class Machine;
  void touch(int matrix);  // now in L2, others leave it
  double arithmetic(int kernel, Sizes sizes) const;

  std::vector<std::vector<float>> memory_;  // by a matrix's id
  std::vector<KernelModel> kernels_;
  std::deque<int> l2_;                         // matrices, the last used at the back
  std::map<size_t, std::vector<float>> left_;  // by size: what new memory holds
  std::set<int> loaded_;
  std::vector<Launch> launches_;
  bool timing_ = false;
  double time_ = 0;
};

}  // namespace gemm::lab
