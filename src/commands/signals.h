// What a signal that ends the program leaves behind: one line, and an exit status.
#pragma once

#include <string>

namespace gemm {

// From now on SIGSEGV and the like end the program with EXIT_FAILED and a line that says what was
// running and where the results are; SIGINT, SIGTERM, SIGHUP and SIGPIPE with the same line, as they
// do by default.
void report_signals();
// For that line; both are cut at a few hundred bytes.
void now_running(const std::string& what);
void now_kept(const std::string& where);  // "the results until then are in run.json.partial"

}  // namespace gemm
