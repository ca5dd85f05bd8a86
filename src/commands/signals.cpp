#include "commands/signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "commands/exit_status.h"

namespace gemm {
namespace {

// Text that a signal handler may read at any moment: the byte after it is always zero.
template <size_t N>
struct Note {
  char text[N] = {};
  void set(const std::string& s) {
    const size_t n = std::min(s.size(), N - 1);
    text[0] = '\0';
    std::memcpy(text + 1, s.data() + std::min<size_t>(1, n), n > 0 ? n - 1 : 0);
    text[n] = '\0';
    if (n > 0) text[0] = s[0];
  }
};
Note<300> running;
Note<1200> kept;

struct Signal {
  int number;
  const char* name;
  bool fault;  // of the program, not asked for from outside
};
constexpr Signal SIGNALS[] = {{SIGSEGV, "segmentation fault", true},
                              {SIGBUS, "bus error", true},
                              {SIGFPE, "arithmetic error", true},
                              {SIGILL, "illegal instruction", true},
                              {SIGABRT, "aborted", true},
                              {SIGINT, "interrupted", false},
                              {SIGTERM, "terminated", false},
                              {SIGHUP, "hung up", false},
                              {SIGPIPE, "nobody reads its output", false}};

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Only calls that are safe in a signal handler.
void end(int number) {
  const Signal* signal = SIGNALS;
  while (signal->number != number) ++signal;
  say("gemm_bench: ");
  if (running.text[0] != '\0') say(running.text), say(": ");
  say(signal->name);
  if (kept.text[0] != '\0') say("; "), say(kept.text);
  say("\n");
  if (signal->fault) _exit(EXIT_FAILED);
  ::signal(number, SIG_DFL);
  raise(number);  // delivered when this handler returns
}

}  // namespace

void report_signals() {
  // A stack of its own: a fault may be an overflow of the other one.
  static std::vector<char> stack(64 << 10);
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&own, nullptr);
  for (const Signal& s : SIGNALS) {
    struct sigaction action = {}, before = {};
    action.sa_handler = end;
    action.sa_flags = SA_ONSTACK;
    sigaction(s.number, nullptr, &before);
    // Not what is ignored, as SIGHUP is under nohup, or reported better, as by a sanitizer.
    if (before.sa_handler == SIG_DFL) sigaction(s.number, &action, nullptr);
  }
}

void now_running(const std::string& what) { running.set(what); }
void now_kept(const std::string& where) { kept.set(where); }

}  // namespace gemm
