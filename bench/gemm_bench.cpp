// gemm_bench: verifies, times and explains the ladder. Each command stands in src/commands/; here is
// which of them runs, and what its errors become.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "commands/explain.h"
#include "commands/inspect.h"
#include "commands/list.h"
#include "commands/run.h"
#include "commands/sharded.h"
#include "commands/signals.h"
#include "commands/tune.h"
#include "harness/errors.h"
#include "harness/text.h"
#include "own/own.h"

namespace gemm {
namespace {

ExitStatus dispatch(int argc, const char* const* argv) {
  Options options = parse_command_line(argc, argv);
  if (options.help) {
    fmt::print("{}", options.help_text);
    return EXIT_VERIFIED;
  }
  if (const std::optional<ExitStatus> done = own::take_files(options)) return *done;
  if (options.gpus > 0) {
    report_signals();
    return run_sharded(options);
  }
  if (options.list) return list(options);
  if (options.only.empty()) report_signals();  // else the process that waits for this one tells
  if (options.inspect) return inspect(options);
  if (options.explain) return explain(options);
  if (options.tune) return tune(options);
  return run(options);
}

ExitStatus say(ExitStatus status, const std::string& line) {
  std::fflush(stdout);
  fmt::print(stderr, "gemm_bench: {}\n", printable(line, 2000));
  return status;
}

ExitStatus stdout_failed(ExitStatus status) {
  return say(status == EXIT_WRONG ? EXIT_WRONG : EXIT_FAILED,
             fmt::format("cannot write to standard output: {}",
                         errno != 0 ? std::strerror(errno) : "it took no more"));
}

// Google Benchmark ends the program with status 1, "a result was wrong", where it cannot open a file.
void need_descriptors() {
  constexpr int NEEDED = 16;
  int opened[NEEDED], count = 0;
  while (count < NEEDED && (opened[count] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0) ++count;
  const int error = errno;
  for (int i = 0; i < count; ++i) close(opened[i]);
  if (count < NEEDED)
    throw std::runtime_error(
        fmt::format("no more than {} files can be opened ({}): allowed are {} "
                    "and more, ulimit -n raises the limit",
                    count, std::strerror(error), NEEDED));
}

ExitStatus guarded(int argc, const char* const* argv) {
  try {
    need_descriptors();
    const ExitStatus status = dispatch(argc, argv);
    errno = 0;
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    const bool told = status == EXIT_USAGE || status == EXIT_FAILED;  // one line is enough
    return written || told ? status : stdout_failed(status);
  } catch (const UsageError& e) {
    return say(EXIT_USAGE, e.what());
  } catch (const std::bad_alloc&) {
    return say(EXIT_FAILED, "out of memory: choose a smaller --size or --shape");
  } catch (const std::system_error& e) {
    if (std::ferror(stdout) == 0) return say(EXIT_FAILED, e.what());
    errno = e.code().value();
    return stdout_failed(EXIT_FAILED);
  } catch (const std::exception& e) {
    return say(EXIT_FAILED, e.what());
  }
}

// A closed stdin, stdout or stderr: the next file that is opened must not take its number.
void reserve_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd) _exit(3);
}

}  // namespace
}  // namespace gemm

int main(int argc, char** argv) {
  using namespace gemm;
  reserve_standard_descriptors();
  signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of write(), as a full disk is
  const ExitStatus status = guarded(argc, argv);
  own::report_end(status);
  return status;
}
