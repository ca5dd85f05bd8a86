// The grader's line to its supervisor (supervise.py): where it is, and in the end its verdict.
//
// The attempt runs in the grader's own process, so neither an exit status nor printed text proves
// that it was graded. What does is a word from main that begins with a token. The supervisor draws
// it at random; it is read here before the attempt's static objects exist, and shown to nobody.
#pragma once

#include <cstddef>
#include <string>

namespace gemm::grading::verdict {

// What runs next, such as "at M = 65, N = 33, K = 20": how the supervisor says where a crash was.
void at(const std::string& step);

// From here on exit() ends the process with its status at once, in whatever thread it is called.
// Destructors would wait for the simulator's threads, of which the caller may be one.
void end_at_exit();

// The verdict, and the end of the process. Destructors do not run: they may be the attempt's own.
// Without a supervisor the words go to the terminal.
[[noreturn]] void graded(const std::string& exercise, int checks, size_t failed);
[[noreturn]] void refused(const std::string& why);

}  // namespace gemm::grading::verdict
