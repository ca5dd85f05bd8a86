#include "own/own.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include "commands/jobs.h"
#include "harness/errors.h"
#include "harness/text.h"
#include "own/build.h"
#include "own/host_process.h"
#include "own/library.h"
#include "own/limits.h"
#include "own/rungs.h"

namespace gemm::own {
namespace {

namespace fs = std::filesystem;

constexpr char WAITS[] = "GEMM_OWN_END";  // the descriptor of who waits for report_end

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::string part;
  for (std::istringstream in(list); std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// Runs the program with this one's arguments, and waits. A kernel that ends it does not end this one.
ExitStatus hand_over(const std::string& program, const Options& o) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  fcntl(ends[1], F_SETFD, 0);
  setenv(WAITS, std::to_string(ends[1]).c_str(), 1);
  std::vector<std::string> arguments = {"gemm_bench"};
  arguments.insert(arguments.end(), o.arguments.begin(), o.arguments.end());
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environ);
  close(ends[1]);
  unsetenv(WAITS);
  if (error != 0) throw std::runtime_error(fmt::format("{}: {}", program, std::strerror(error)));
  char said = 0;
  const bool ended = read(ends[0], &said, 1) == 1;
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (ended && WIFEXITED(status) && WEXITSTATUS(status) == said)
    return static_cast<ExitStatus>(said);
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED)
    return EXIT_FAILED;  // a signal, and a line about it
  throw std::runtime_error(
      WIFSIGNALED(status)
          ? fmt::format("the kernel's process was ended by signal {} ({})", WTERMSIG(status),
                        strsignal(WTERMSIG(status)))
          : fmt::format("the kernel ended its process (exit {}) before the inspection was done",
                        WEXITSTATUS(status)));
}

// The file's rungs, which run in a process of its own.
void add_host(const std::string& file, bool quiet) {
  static SharedMatrices memory;
  static std::vector<std::unique_ptr<HostProcess>> hosts;
  set_sim_memory(&memory);
  HostProcess& host = *hosts.emplace_back(std::make_unique<HostProcess>(build_host(file), memory));
  if (host.interfaces().empty()) throw UsageError(no_form(file));
  const std::unique_ptr<Device> device = make_sim_device();
  for (size_t i = 0; i < host.interfaces().size(); ++i) {
    const Interface interface = host.interfaces()[i];
    const auto run = [&host, i](const GemmCall& c) { host.run(static_cast<int>(i), c); };
    Rung& rung = add_rung(absolute_path(file), interface, Backend::sim, run);
    rung.diagnose = [&host, &rung](int M, int N, int K, const std::string& wrong) {
      return diagnose(rung, *make_sim_device(), M, N, K, wrong, host.grid());
    };
    const std::string limits = find_limits(rung, *device);
    if (!quiet)
      fmt::print("{}: {} {}, {}\n", printable(file), to_string(interface.dtype),
                 signature(interface), limits);
  }
}

}  // namespace

std::optional<ExitStatus> take_files(Options& o) {
  std::vector<std::string> parts = split(o.kernels), files;
  for (const std::string& part : parts)
    if (is_file(part) && std::ranges::find(files, part) == files.end()) files.push_back(part);
  if (files.empty()) return {};
  const auto named_instead = [&] {
    for (std::string& part : parts)
      if (is_file(part)) part = name_of(part);
    o.kernels = fmt::format("{}", fmt::join(parts, ","));
  };
  if (holds_libraries()) {
    if (load_libraries()) return EXIT_VERIFIED;
    return named_instead(), std::nullopt;
  }
  std::set<std::string> names;
  for (const std::string& file : files) {
    if (!fs::is_regular_file(file))
      throw UsageError(fmt::format(
          "--kernel {}: no such file; want rungs, or files of CUDA C++ such as path/to/mine.cu",
          printable(file)));
    if (!names.insert(name_of(file)).second)
      throw UsageError(fmt::format("--kernel {}: two files of the name {}; rename one",
                                   printable(o.kernels), name_of(file)));
  }
  const Backend backend = o.inspect ? Backend::sim_traced : Backend::sim;
  const bool added = std::ranges::all_of(
      files, [&](const std::string& f) { return is_added(absolute_path(f), backend); });
  if (o.inspect && !added) return hand_over(build_inspector(files), o);
  if (!added) {
    std::string note;
    const std::unique_ptr<Device> device = choose_device(o, note);
    if (device->backend() == Backend::gpu)
      add_libraries(files, o, *device);
    else
      for (const std::string& file : files) add_host(file, !o.only.empty() || o.list_benchmarks);
  }
  named_instead();
  return {};
}

void report_end(ExitStatus status) {
  const char* const waits = std::getenv(WAITS);
  if (waits == nullptr) return;
  const char said = static_cast<char>(status);
  if (write(std::atoi(waits), &said, 1) != 1) _exit(EXIT_FAILED);
}

}  // namespace gemm::own
