// A judged program: a process of its own that computes, answers and prints, and can do no more.
//
// It holds the simulator and the judged file, and nothing that judges: it sends results and counters,
// and all checks are made here. Before it begins it is forbidden to write to files, to start
// processes and to reach others (seccomp), static constructors included. Exercises have one
// (exercises/grader/runner.cpp), and kernels of a user's own (host.cpp).
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace gemm::own {

// It gives no answer any more. what() is a sentence about it.
struct Ended : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What it prints, passed on behind a bar: no byte that is not text, and not more than anyone would read.
class Output {
 public:
  void write(std::string_view text);
  void end_line();

 private:
  size_t left_ = 1 << 20;  // bytes
  bool at_line_start_ = true;
};

class Attempt {
 public:
  struct Limits {
    double seconds = 120, gib = 4;  // most use 0.1
  };
  // Starts it. `memory`: a file in memory that it gets as MEMORY (message.h); -1: none. Throws
  // std::runtime_error.
  Attempt(const std::string& program, Limits limits, int memory = -1);
  ~Attempt();  // and ends it
  Attempt(const Attempt&) = delete;

  // Its answer to a request. `step` says where that was: "at M = 65, N = 33, K = 20". Throws Ended.
  nlohmann::json ask(nlohmann::json request, const std::string& step);
  // Its limits from now on: the seconds begin again.
  void limit(Limits limits);
  // How many threads it has.
  int threads() const;

 private:
  bool read_output();
  void kill();
  double memory() const;  // bytes
  std::string end_of(const std::string& step);

  Limits limits_;
  pid_t pid_ = -1;
  int channel_ = -1, printed_ = -1;
  double end_ = 0;
  Output output_;
};

}  // namespace gemm::own
