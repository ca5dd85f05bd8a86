// Grades what is linked into it.
//
//   exercise_grader start|work|solution ex03   exit status 0: all checks passed, 1: not all, 2: usage
//   exercise_grader prove [ex03 ...]           starting files fail as their tests say, solutions pass
//
// scripts/grade.sh runs the first under supervise.py, whose word alone counts.
#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "grader/grader.h"
#include "grader/verdict.h"
#include "sim/runtime.h"

namespace gemm::grading {
namespace {

bool is_named(const Test& test, const std::string& name) {
  return name == test.exercise || name == test.exercise.substr(0, test.exercise.find('_'));
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

struct Result {
  int checks;
  std::set<std::string> failed;
};

Result grade(const Test& test, const std::string& kind) {
  fmt::print("{}, {}.cu\n", test.exercise, kind);
  Grader grader(find(test, kind));
  test.grade(grader);
  return {grader.checks(), grader.failed()};
}

// The worker threads of the simulator are started here, so that they are gone after all that
// end_at_exit() registers.
void start_simulator() {
  sim::runtime::launch([](void*) {}, nullptr, {});
}

[[noreturn]] void grade_one(const std::string& kind, const std::string& name) {
  try {
    const auto test =
        std::ranges::find_if(tests(), [&](const Test& t) { return is_named(t, name); });
    if (test == tests().end()) throw std::runtime_error("no such exercise");
    start_simulator();
    verdict::end_at_exit();
    verdict::at("while it was graded");
    const Result result = grade(*test, kind);
    verdict::graded(test->exercise, result.checks, result.failed.size());
  } catch (const std::exception& e) {
    verdict::refused(e.what());
  } catch (...) {
    verdict::refused("something was thrown that is no std::exception");
  }
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "nothing" : text;
}

// The exercise is one: what is given fails, for the reason that it is about, and can be mended.
bool proven(const Test& test) {
  const std::set<std::string> start = grade(test, "start").failed,
                              solution = grade(test, "solution").failed;
  if (start != test.start_fails)
    fmt::print("NOT PROVEN: {}/start.cu must fail {}, but fails {}\n", test.exercise,
               listed(test.start_fails), listed(start));
  if (!solution.empty())
    fmt::print("NOT PROVEN: {}/solution.cu fails {}\n", test.exercise, listed(solution));
  return start == test.start_fails && !start.empty() && solution.empty();
}

int prove(const std::vector<std::string>& wanted) {
  bool good = true;
  int seen = 0;
  for (const Test& test : tests()) {
    if (!wanted.empty() &&
        std::ranges::none_of(wanted, [&](const std::string& w) { return is_named(test, w); }))
      continue;
    ++seen;
    good &= proven(test);
  }
  if (seen == 0) throw std::runtime_error("no such exercise");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace gemm::grading

int main(int argc, char** argv) {
  using namespace gemm::grading;
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc == 3 && (what == "start" || what == "work" || what == "solution"))
    grade_one(what, argv[2]);
  if (what != "prove") {
    fmt::print(stderr, "usage: {} start|work|solution ex03, or prove [ex03 ...]\n", argv[0]);
    return 2;
  }
  try {
    return prove({argv + 2, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
