#include "grader/verdict.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace gemm::grading::verdict {
namespace {

// Ends this process (SIGSYS) when it tries to start another; threads may be started. A fork bomb
// that is fast enough starves whoever would kill its processes one by one.
void forbid_processes() {
  constexpr auto flags = offsetof(seccomp_data, args);  // of clone; the low half on little endian
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
#ifdef __NR_fork
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fork, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_vfork, 4, 0),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      // The C library then calls clone, whose flags can be seen.
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  const sock_fprog program = {static_cast<unsigned short>(std::size(rules)), rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);  // where there is none, supervise.py looks
}

// The supervisor's end of a socket, its number in GRADER_CHANNEL, and the token read from it.
class Channel {
 public:
  Channel() {
    // Unbuffered: what is printed before a crash or an endless loop must be seen.
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    const char* const number = std::getenv("GRADER_CHANNEL");
    if (number == nullptr) return;
    socket_ = std::atoi(number);
    unsetenv("GRADER_CHANNEL");
    if (read(socket_, token_.data(), token_.size()) != static_cast<ssize_t>(token_.size()))
      socket_ = -1;
    forbid_processes();
  }

  bool supervised() const { return socket_ >= 0; }

  // A copy of the process (fork) has the token too, but no say.
  void send(std::string line) const {
    if (!supervised() || getpid() != owner_) return;
    std::replace(line.begin(), line.end(), '\n', ' ');
    line = std::string(token_.begin(), token_.end()) + line + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += n;
    }
  }

 private:
  int socket_ = -1;
  pid_t owner_ = getpid();
  std::array<char, 32> token_ = {};
};

// Constructed before every object without a priority, those of the attempt among them.
__attribute__((init_priority(101))) const Channel channel;

}  // namespace

void at(const std::string& step) { channel.send("at " + step); }

void end_at_exit() {
  on_exit([](int status, void*) { _exit(status); }, nullptr);
}

void graded(const std::string& exercise, int checks, size_t failed) {
  channel.send(fmt::format("graded {} {}", checks, failed));
  if (!channel.supervised()) {
    if (failed == 0)
      fmt::print("  All {} checks passed.\n", checks);
    else
      fmt::print("  {} of {} checks failed. A hint: exercises/{}/hint.md\n", failed, checks,
                 exercise);
  }
  _exit(failed == 0 ? 0 : 1);
}

void refused(const std::string& why) {
  channel.send("refused " + why);
  if (!channel.supervised()) fmt::print(stderr, "{}\n", why);
  _exit(2);
}

}  // namespace gemm::grading::verdict
