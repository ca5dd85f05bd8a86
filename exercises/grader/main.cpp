// Grades what is linked into it.
//
//   exercise_grader start|work|solution [ex03 ...]   exit status 0: all passed, 1: not all, 2: usage
//   exercise_grader prove [ex03 ...]                 starting files fail as their tests say, solutions
//                                                    pass
#include <fmt/format.h>

#include <cstring>
#include <exception>

#include "grader/grader.h"

namespace gemm::grading {
namespace {

bool chosen(const std::string& exercise, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return true;
  for (const std::string& w : wanted)
    if (exercise == w || exercise.substr(0, exercise.find('_')) == w) return true;
  return false;
}

const Submission& find(const Test& test, const std::string& kind) {
  const Submission* found = nullptr;
  for (const Submission& s : submissions())
    if (s.exercise() == test.exercise && s.kind() == kind) {
      if (found != nullptr)
        throw std::runtime_error(s.file + ": more than one line `const Exercise exercise(...);`");
      found = &s;
    }
  if (found == nullptr)
    throw std::runtime_error(
        fmt::format("exercises/{}/{}.cu hands in nothing: its line `const Exercise exercise(...);` "
                    "is missing",
                    test.exercise, kind));
  return *found;
}

std::set<std::string> grade(const Test& test, const std::string& kind) {
  fmt::print("{}, {}.cu\n", test.exercise, kind);
  Grader grader(find(test, kind));
  test.grade(grader);
  const size_t failed = grader.failed().size();
  if (failed == 0)
    fmt::print("  All {} checks passed.\n\n", grader.checks());
  else
    fmt::print("  {} of {} checks failed. A hint: exercises/{}/hint.md\n\n", failed,
               grader.checks(), test.exercise);
  return grader.failed();
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "nothing" : text;
}

// The exercise is one: what is given fails, for the reason that it is about, and can be mended.
bool prove(const Test& test) {
  const std::set<std::string> start = grade(test, "start"), solution = grade(test, "solution");
  if (start != test.start_fails)
    fmt::print("NOT PROVEN: {}/start.cu must fail {}, but fails {}\n", test.exercise,
               listed(test.start_fails), listed(start));
  if (!solution.empty())
    fmt::print("NOT PROVEN: {}/solution.cu fails {}\n", test.exercise, listed(solution));
  return start == test.start_fails && !start.empty() && solution.empty();
}

int run(const std::string& what, const std::vector<std::string>& wanted) {
  bool good = true;
  int seen = 0;
  for (const Test& test : tests()) {
    if (!chosen(test.exercise, wanted)) continue;
    ++seen;
    good &= what == "prove" ? prove(test) : grade(test, what).empty();
  }
  if (seen == 0) throw std::runtime_error("no such exercise");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace gemm::grading

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what != "start" && what != "work" && what != "solution" && what != "prove") {
    fmt::print(stderr, "usage: {} start|work|solution|prove [ex03 ...]\n", argv[0]);
    return 2;
  }
  try {
    return gemm::grading::run(what, {argv + 2, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
