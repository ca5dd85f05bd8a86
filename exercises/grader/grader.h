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
#include <memory>
#include <set>
#include <source_location>
#include <string>
#include <vector>

#include "grader/submission.h"
#include "harness/inspector.h"

namespace gemm::grading {

// Looks at one submission and says, line by line, what is right and what is not.
class Grader {
 public:
  explicit Grader(const Submission& submission);
  ~Grader();
  Grader(const Grader&) = delete;

  const Submission& submission() const { return submission_; }

  // The microscope finds no mistake: no race, nothing out of bounds, ... The checks that fail carry
  // the names of what it finds. Asynchronous copies land as late as the program allows, and if that
  // is well, once more as early.
  void clean(const Problem& problem);

  // Check "result": as the harness verifies rungs, on small integers bit for bit and then on uniform
  // inputs, with ld > columns, NaN in C where beta is 0, and guards. Not run after a mistake that
  // could end the program.
  void right(const std::vector<Problem>& problems);

  // What warps ask of one matrix ("A") or array in shared memory ("sA"; "": of all).
  sim::Traffic traffic(const Problem& problem, bool global, sim::AccessKind kind,
                       const std::string& memory);
  // The microscope's whole view.
  const Inspection& look(const Problem& problem);
  // The part of C that one block writes.
  sim::Written written(const Problem& problem, int64_t block);

  // Check `name`: a number that must not be larger. `meaning` tells what it means that it is.
  void at_most(const std::string& name, double value, double limit, const std::string& meaning);
  void check(const std::string& name, bool passed, const std::string& detail,
             const std::string& meaning = "");
  // A line of the report that decides nothing.
  void note(const std::string& text);

  const std::set<std::string>& failed() const { return failed_; }
  int checks() const { return checks_; }

 private:
  struct View;
  View& view(Problem problem);
  std::string wrong(Problem problem, Inputs inputs);

  const Submission& submission_;
  Rung rung_;
  std::map<std::string, std::unique_ptr<View>> views_;
  std::vector<char> bias_;
  std::set<std::string> failed_;
  int checks_ = 0;
  bool dangerous_ = false;  // to run untraced
};

// The test of the exercise in whose folder it stands.
struct Test {
  using Grade = void (*)(Grader&);
  Test(std::set<std::string> start_fails, Grade grade,
       std::source_location here = std::source_location::current());
  std::string exercise;
  std::set<std::string> start_fails;
  Grade grade;
};
const std::vector<Test>& tests();

}  // namespace gemm::grading
