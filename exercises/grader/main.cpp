// Grades the student's program, which is started as a process of its own (own/attempt.h).
//
//   exercise_grader grade PROGRAM start|work|solution ex03 [SECONDS [GIB]]   the verdict in one line
//   exercise_grader prove PROGRAM [ex03 ...]   starting files fail as their tests say, solutions pass
//
// Exit status: 0 passed, 1 not passed, 2 usage, 3 the program cannot be started.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "grader/grader.h"
#include "grader/source.h"

namespace gemm::grading {
namespace {

bool is_named(const Test& test, const std::string& name) {
  return name == test.exercise || name == test.exercise.substr(0, test.exercise.find('_'));
}

struct Result {
  int checks;
  std::set<std::string> failed;
};

Result grade(const std::string& program, const Test& test, const std::string& kind,
             Attempt::Limits limits = {}) {
  fmt::print("{}, {}.cu\n", test.exercise, kind);
  Attempt attempt(program, limits);
  Grader grader(attempt, test.exercise, kind, test.form);
  test.grade(grader);
  grader.also_right_larger();
  return {grader.checks(), grader.failed()};
}

int grade_one(const std::string& program, const std::string& kind, const std::string& name,
              Attempt::Limits limits) {
  const auto test = std::ranges::find_if(tests(), [&](const Test& t) { return is_named(t, name); });
  if (test == tests().end()) throw std::invalid_argument("no such exercise");
  std::string sentence;
  try {
    if (kind == "work") refuse_source("exercises/" + test->exercise);
    const Result result = grade(program, *test, kind, limits);
    if (result.failed.empty() && result.checks > 0) {
      fmt::print("== {}: passed, {} of {} checks.\n", test->exercise, result.checks, result.checks);
      return 0;
    }
    sentence = fmt::format("{} of {} checks failed.", result.failed.size(), result.checks);
  } catch (const Ended& e) {
    sentence = e.what();
  }
  fmt::print("== {}: not passed. {} A hint: exercises/{}/hint.md\n", test->exercise, sentence,
             test->exercise);
  return 1;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "nothing" : text;
}

// The exercise is one: what is given fails, for the reason that it is about, and can be mended.
bool proven(const std::string& program, const Test& test) {
  const std::set<std::string> start = grade(program, test, "start").failed,
                              solution = grade(program, test, "solution").failed;
  if (start != test.start_fails)
    fmt::print("NOT PROVEN: {}/start.cu must fail {}, but fails {}\n", test.exercise,
               listed(test.start_fails), listed(start));
  if (!solution.empty())
    fmt::print("NOT PROVEN: {}/solution.cu fails {}\n", test.exercise, listed(solution));
  return start == test.start_fails && !start.empty() && solution.empty();
}

int prove(const std::string& program, const std::vector<std::string>& wanted) {
  bool good = true;
  int seen = 0;
  for (const Test& test : tests()) {
    if (!wanted.empty() &&
        std::ranges::none_of(wanted, [&](const std::string& w) { return is_named(test, w); }))
      continue;
    ++seen;
    good &= proven(program, test);
  }
  if (seen == 0) throw std::invalid_argument("no such exercise");
  return good ? 0 : 1;
}

int run(const std::vector<std::string>& args) {
  const std::string what = args.empty() ? "" : args[0];
  const auto above_0 = [&](size_t at, double otherwise) {
    const double x = args.size() > at ? std::atof(args[at].c_str()) : otherwise;
    if (!(x > 0 && x < 1e6)) throw std::invalid_argument(args[at] + ": want a number above 0");
    return x;
  };
  if (what == "grade" && args.size() >= 4 && args.size() <= 6 &&
      (args[2] == "start" || args[2] == "work" || args[2] == "solution"))
    return grade_one(args[1], args[2], args[3], {above_0(4, 120), above_0(5, 4)});
  if (what == "prove" && args.size() >= 2) return prove(args[1], {args.begin() + 2, args.end()});
  throw std::invalid_argument(
      "usage: exercise_grader grade PROGRAM start|work|solution ex03 [SECONDS [GIB]], or prove "
      "PROGRAM [ex03 ...]");
}

}  // namespace
}  // namespace gemm::grading

int main(int argc, char** argv) {
  // What is printed is seen at once, in order.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return gemm::grading::run({argv + 1, argv + argc});
  } catch (const std::invalid_argument& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
