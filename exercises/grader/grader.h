// What the test of an exercise says, in exercises/ex*/test.cpp:
//
//   const Test test({"race"}, [](Grader& grader) {
//     grader.clean({.M = 64, .N = 64, .K = 64});
//     grader.right({{.M = 65, .N = 33, .K = 47}});
//   });
//
// The list names the checks that the starting file fails, no more and no fewer: the grader's own
// proof that the exercise is one.
#pragma once

#include <map>
#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "grader/benchmark.h"
#include "harness/inspector.h"
#include "own/attempt.h"

namespace gemm::grading {

using own::Attempt, own::Ended;

// Looks at one submission and says, line by line, what is right and what is not. It asks the student's
// program (own/attempt.h) for results and counters, and judges them itself.
class Grader {
 public:
  // `kind`: "start", "work" or "solution"; `form`: see Test. Throws Ended.
  Grader(Attempt& attempt, const std::string& exercise, const std::string& kind,
         const std::string& form);

  // The microscope finds no mistake: no race, nothing out of bounds, ... The checks that fail carry
  // the names of what it finds. Asynchronous copies land as late as the program allows, and if that
  // is well, once more as early.
  void clean(const Problem& problem);

  // Check "result": as the harness verifies rungs, on small integers bit for bit and then on uniform
  // inputs, with ld > columns, NaN in C where beta is 0, and guards. Not run after a mistake that
  // could end the program.
  void right(const std::vector<Problem>& problems);

  // At the end, of what right() has looked at: a larger problem, of which no test says anything.
  void also_right_larger();

  // What warps ask of one matrix ("A") or array in shared memory ("sA"; "": of all).
  sim::Traffic traffic(const Problem& problem, bool global, sim::AccessKind kind,
                       const std::string& memory);
  // The microscope's view: what was skipped, blocks, threads, lines and findings.
  const Inspection& look(Problem problem);
  // The first row and column of C that one block writes.
  std::pair<int64_t, int64_t> written(Problem problem, int64_t block);
  // What a check of results says, how many are wrong.
  int64_t count_wrong(const std::vector<float>& got, const std::vector<double>& want,
                      const std::vector<double>& bound);
  // What a benchmark's driver says, and what it did.
  struct Driven {
    double said;
    std::vector<lab::Launch> launches;
  };
  Driven drive(const lab::Task& task);

  // Check `name`: a number that must not be larger. `meaning` tells what it means that it is.
  void at_most(const std::string& name, double value, double limit, const std::string& meaning);
  void check(const std::string& name, bool passed, const std::string& detail,
             const std::string& meaning = "");
  // A line of the report that decides nothing.
  void note(const std::string& text);

  const std::set<std::string>& failed() const { return failed_; }
  int checks() const { return checks_; }

 private:
  nlohmann::json ask(const char* what, nlohmann::json request, const std::string& step);
  nlohmann::json ask(const char* what, Problem& problem, nlohmann::json request = {});
  Inspection look(Problem problem, bool eager_copies);
  std::string wrong(Problem problem, Inputs inputs);

  Attempt& attempt_;
  int submission_ = -1;
  DType dtype_ = DType::f32;
  std::string epilogue_;
  std::map<std::string, Inspection> seen_;
  std::vector<Problem> tried_;
  std::set<std::string> failed_;
  int checks_ = 0;
  bool dangerous_ = false;  // to run untraced
};

// The test of the exercise in whose folder it stands. `form` is what launch() computes and the student
// cannot change: "f32", "f16", "f32 bias", "f32 leaky_relu", or "count_wrong", "verify", "compare".
struct Test {
  using Grade = void (*)(Grader&);
  Test(std::set<std::string> start_fails, Grade grade, std::string form = "f32",
       std::source_location here = std::source_location::current());
  std::string exercise;
  std::set<std::string> start_fails;
  Grade grade;
  std::string form;
};
const std::vector<Test>& tests();

}  // namespace gemm::grading
