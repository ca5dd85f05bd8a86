#include "own/attempt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "own/message.h"

namespace gemm::own {
namespace {

constexpr int FIRST_FREE = 16;  // descriptors below have a meaning, or come near it
constexpr int POLL_MS = 50;     // between two looks at its time and memory

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What it may ask of the system. Who opens a file to write, or starts a process, is ended (SIGSYS);
// all else that is not named here does not exist (ENOSYS): other files, sockets, other processes.
class Confinement {
 public:
  explicit Confinement(const char* program) {
#ifdef __x86_64__
    constexpr uint32_t ARCH = AUDIT_ARCH_X86_64;
#else
    constexpr uint32_t ARCH = AUDIT_ARCH_AARCH64;
#endif
    load(offsetof(seccomp_data, arch));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    load(offsetof(seccomp_data, nr));
    // openat(folder, name, flags): to read
    if_argument(__NR_openat, 2, BPF_JSET, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
                SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    // Threads may be started. clone3 hides its flags: the C library then takes clone.
    if_argument(__NR_clone, 0, BPF_JSET, CLONE_THREAD, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    // Who does not know where the judge holds the name starts nothing.
    if_argument(__NR_execve, 0, BPF_JEQ,
                static_cast<uint32_t>(reinterpret_cast<uintptr_t>(program)), SECCOMP_RET_ALLOW,
                SECCOMP_RET_KILL_PROCESS);
    // Signals to itself, as abort() sends one.
    own_pid_ = if_argument(__NR_tgkill, 0, BPF_JEQ, 0, SECCOMP_RET_ALLOW, NO_SUCH_CALL);
    if_argument(__NR_prlimit64, 0, BPF_JEQ, 0, SECCOMP_RET_ALLOW, NO_SUCH_CALL);
#ifdef __NR_fork
    for (const int call : {__NR_fork, __NR_vfork}) always(call, SECCOMP_RET_KILL_PROCESS);
    for (const int call : {__NR_arch_prctl, __NR_access, __NR_readlink, __NR_poll})
      always(call, SECCOMP_RET_ALLOW);
#endif
    // clang-format off
    for (const int call :
         {__NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_close, __NR_fstat,
          __NR_newfstatat, __NR_lseek, __NR_faccessat, __NR_readlinkat, __NR_getcwd, __NR_mmap,
          __NR_munmap, __NR_mprotect, __NR_mremap, __NR_madvise, __NR_brk, __NR_futex,
          __NR_set_tid_address, __NR_set_robust_list, __NR_rseq, __NR_exit, __NR_exit_group,
          __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn,
          __NR_sigaltstack, __NR_sched_yield, __NR_sched_getaffinity, __NR_nanosleep,
          __NR_clock_nanosleep, __NR_clock_gettime, __NR_clock_getres, __NR_gettimeofday,
          __NR_getrandom, __NR_getpid, __NR_gettid, __NR_getppid, __NR_getuid, __NR_geteuid,
          __NR_getgid, __NR_getegid, __NR_getrusage, __NR_uname, __NR_sysinfo, __NR_sendto,
          __NR_recvfrom, __NR_ppoll, __NR_restart_syscall})
      // clang-format on
      always(call, SECCOMP_RET_ALLOW);
    add(BPF_STMT(BPF_RET | BPF_K, NO_SUCH_CALL));
  }

  // For the process that begins, between fork and exec. The rules stay with what it executes.
  bool apply() {
    rules_[own_pid_].k = getpid();
    const sock_fprog program = {static_cast<unsigned short>(rules_.size()), rules_.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  static constexpr uint32_t NO_SUCH_CALL = SECCOMP_RET_ERRNO | ENOSYS;
  void add(sock_filter rule) { rules_.push_back(rule); }
  void load(uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void always(uint32_t call, uint32_t verdict) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, verdict));
  }
  // By the argument's low half (little endian). Returns where the value to compare with stands.
  size_t if_argument(uint32_t call, int argument, int compare, uint32_t value, uint32_t then,
                     uint32_t otherwise) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4));
    load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    add(BPF_JUMP(BPF_JMP | static_cast<unsigned>(compare) | BPF_K, value, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, then));
    add(BPF_STMT(BPF_RET | BPF_K, otherwise));
    return rules_.size() - 3;
  }

  std::vector<sock_filter> rules_;
  size_t own_pid_ = 0;
};

const char* meaning_of(int number) {
  static const std::map<int, const char*> meanings = {
      {SIGSEGV, "segmentation fault (SIGSEGV), memory that is not its own or a stack overflow"},
      {SIGBUS, "bus error (SIGBUS), memory that is not there"},
      {SIGFPE, "arithmetic error (SIGFPE), such as an integer divided by zero"},
      {SIGILL, "illegal instruction (SIGILL)"},
      {SIGSYS,
       "it tried to start another process or to write to a file (SIGSYS), which is not allowed"},
      {SIGABRT, "aborted (SIGABRT), by abort(), an assert or an exception that nobody caught"},
  };
  const auto found = meanings.find(number);
  return found == meanings.end() ? strsignal(number) : found->second;
}

}  // namespace

void Output::write(std::string_view text) {
  if (left_ == 0) return;
  text = text.substr(0, left_);
  left_ -= text.size();
  std::string shown;
  for (const char c : text) {
    if (at_line_start_) shown += "  | ";
    at_line_start_ = c == '\n';
    if (c == '\n' || c == '\t' || (c >= ' ' && c <= '~'))
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  fmt::print("{}", shown);
  if (left_ > 0) return;
  end_line();
  fmt::print("  What it prints after the first MiB is left out.\n");
}

void Output::end_line() {
  if (!at_line_start_) fmt::print("\n");
  at_line_start_ = true;
}

// ------------------------------------------------------------------------------------------------

Attempt::Attempt(const std::string& program, Limits limits, int memory) : limits_(limits) {
  const auto failed = [&] {
    throw std::runtime_error(fmt::format("{}: {}", program, strerror(errno)));
  };
  if (access(program.c_str(), X_OK) != 0 || prctl(PR_GET_SECCOMP) < 0) failed();
  Confinement confinement(program.c_str());
  int channel[2], printed[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0 ||
      pipe2(printed, O_CLOEXEC) != 0)
    failed();
  std::fflush(stdout);
  const pid_t judge = getpid();
  pid_ = fork();
  if (pid_ < 0) failed();
  if (pid_ == 0) {  // nothing here but system calls: another thread may have held a lock
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nothing = open("/dev/null", O_RDONLY);
    // None of them may have the number that another is to get.
    if (memory >= 0) memory = fcntl(memory, F_DUPFD, FIRST_FREE);
    channel[1] = fcntl(channel[1], F_DUPFD, FIRST_FREE);
    const bool ready = getppid() == judge && dup2(nothing, 0) == 0 && dup2(printed[1], 1) == 1 &&
                       dup2(printed[1], 2) == 2 && dup2(channel[1], CHANNEL) == CHANNEL &&
                       fcntl(CHANNEL, F_SETFD, 0) == 0 &&
                       (memory < 0 || dup2(memory, MEMORY) == MEMORY);
    syscall(__NR_close_range, memory < 0 ? MEMORY : MEMORY + 1, ~0u,
            0);  // what the judge was started with
    char* const arguments[] = {const_cast<char*>(program.c_str()), nullptr};
    if (ready && confinement.apply()) execve(program.c_str(), arguments, environ);
    _exit(127);
  }
  close(channel[1]), close(printed[1]);
  channel_ = channel[0], printed_ = printed[0];
  fcntl(channel_, F_SETFL, O_NONBLOCK), fcntl(printed_, F_SETFL, O_NONBLOCK);
  end_ = now() + limits_.seconds;
}

void Attempt::limit(Limits limits) {
  limits_ = limits;
  end_ = now() + limits_.seconds;
}

int Attempt::threads() const {
  int n = 0;
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), gone))
    n += !task.path().empty();
  return n;
}

Attempt::~Attempt() {
  kill();
  close(channel_), close(printed_);
}

void Attempt::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

// Passes on what it has printed; whether there was anything.
bool Attempt::read_output() {
  char data[1 << 16];
  const ssize_t n = read(printed_, data, sizeof data);
  if (n > 0) output_.write({data, static_cast<size_t>(n)});
  return n > 0;
}

double Attempt::memory() const {
  int64_t size = 0, resident = 0;
  std::ifstream(fmt::format("/proc/{}/statm", pid_)) >> size >> resident;
  return double(resident) * double(sysconf(_SC_PAGESIZE));
}

nlohmann::json Attempt::ask(nlohmann::json request, const std::string& step) {
  const auto stop = [&](const std::string& why) {
    kill();
    while (read_output()) {
    }
    output_.end_line();
    throw Ended(why);
  };
  if (pid_ < 0) stop("The program has ended.");
  // Whoever writes to the channel without having been asked has not got this.
  std::random_device random;
  const std::string token = fmt::format("{:08x}{:08x}", random(), random());
  request["token"] = token;
  if (!send_message(channel_, request)) stop(end_of(step));
  std::string arrived;
  for (;;) {
    pollfd ready[] = {{channel_, POLLIN, 0}, {printed_, POLLIN, 0}};
    poll(ready, 2, POLL_MS);
    if (ready[1].revents != 0 && !read_output()) ready[1].revents = 0;
    if (memory() > limits_.gib * (1 << 30))
      stop(fmt::format("The program was stopped {}, because it used more than {:g} GiB of memory.",
                       step, limits_.gib));
    if (now() > end_)
      stop(fmt::format("The program was stopped {}, after {:g} seconds: it did not end.", step,
                       limits_.seconds));
    if (ready[0].revents == 0) continue;
    char data[1 << 16];
    const ssize_t n = read(channel_, data, sizeof data);
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0) stop(end_of(step));
    arrived.append(data, n);
    try {
      if (const std::optional<nlohmann::json> answer = take_message(arrived)) {
        if (answer->at("token") != token || !arrived.empty())
          throw std::runtime_error("not the answer");
        while (read_output()) {
        }
        output_.end_line();
        return *answer;
      }
    } catch (const std::exception&) {
      stop(fmt::format("The program wrote to the judge's channel {}; it was not judged.", step));
    }
  }
}

// How it ended, whose end of the channel is closed.
std::string Attempt::end_of(const std::string& step) {
  siginfo_t info{};
  for (const double end = now() + 2; info.si_pid == 0 && now() < end; usleep(1000))
    waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT);
  if (info.si_pid == 0)
    return fmt::format("The program closed the judge's channel {}; it was not judged.", step);
  if (info.si_code == CLD_EXITED)
    return fmt::format("The program ended by itself (exit {}) {}; it was not judged.",
                       info.si_status, step);
  return fmt::format("The program crashed {}: {}.", step, meaning_of(info.si_status));
}

}  // namespace gemm::own
