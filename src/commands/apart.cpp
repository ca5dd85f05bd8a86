#include "commands/apart.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/errors.h"

namespace gemm {

// Outcomes travel as CBOR: unlike JSON it knows infinities. Each type's fields, once, in both
// directions. CheckResult is not among them: what it says stands in Outcome::wrong.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Spread, median, p10, p90)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Conditions, sm_clock_mhz, sm_clock_min_mhz, power_w,
                                   temperature_c, memory_percent, throttle)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Alone, name, tflops, conditions)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Baseline, name, cublas_tflops, cublaslt_tflops, cublaslt_index,
                                   cublaslt_tried, max_error, max_error_roundings)
namespace sim {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LaunchStats, blocks, threads_per_block, barriers, collectives,
                                   copies)
}

namespace {

using nlohmann::json;

template <class T>
json packed(const std::optional<T>& value) {
  return value ? json(*value) : json();
}
template <class T>
void unpack(const json& j, std::optional<T>& value) {
  if (!j.is_null()) value = j.get<T>();
}

json packed(const Timing& t) {
  return {{"tflops", t.tflops},       {"baseline_tflops", t.baseline_tflops},
          {"ratio", t.ratio},         {"ratio_uncertainty", t.ratio_uncertainty},
          {"seconds", t.seconds},     {"launches_per_sample", t.launches_per_sample},
          {"held", t.held},           {"conditions", t.conditions},
          {"alone", packed(t.alone)}, {"alone_baseline", packed(t.alone_baseline)}};
}
Timing timing_of(const json& j) {
  Timing t;
  j.at("tflops").get_to(t.tflops);
  j.at("baseline_tflops").get_to(t.baseline_tflops);
  j.at("ratio").get_to(t.ratio);
  j.at("ratio_uncertainty").get_to(t.ratio_uncertainty);
  j.at("seconds").get_to(t.seconds);
  j.at("launches_per_sample").get_to(t.launches_per_sample);
  j.at("held").get_to(t.held);
  j.at("conditions").get_to(t.conditions);
  unpack(j.at("alone"), t.alone);
  unpack(j.at("alone_baseline"), t.alone_baseline);
  return t;
}

json packed(const Outcome& o) {
  return {{"skipped", o.skipped},
          {"wrong", o.wrong},
          {"failed", o.failed},
          {"out_of_memory", o.out_of_memory},
          {"not_timed", o.not_timed},
          {"variant", o.variant},
          {"jit_kernels", o.jit_kernels},
          {"jit_ms", o.jit_ms},
          {"timing", o.timing ? packed(*o.timing) : json()},
          {"baseline", o.baseline},
          {"stats", packed(o.stats)},
          {"max_error", o.max_error},
          {"max_error_roundings", o.max_error_roundings}};
}
void unpack(const json& j, Outcome& o) {
  j.at("skipped").get_to(o.skipped);
  j.at("wrong").get_to(o.wrong);
  j.at("failed").get_to(o.failed);
  j.at("out_of_memory").get_to(o.out_of_memory);
  j.at("not_timed").get_to(o.not_timed);
  j.at("variant").get_to(o.variant);
  j.at("jit_kernels").get_to(o.jit_kernels);
  j.at("jit_ms").get_to(o.jit_ms);
  if (!j.at("timing").is_null()) o.timing = timing_of(j.at("timing"));
  j.at("baseline").get_to(o.baseline);
  unpack(j.at("stats"), o.stats);
  j.at("max_error").get_to(o.max_error);
  j.at("max_error_roundings").get_to(o.max_error_roundings);
}

}  // namespace

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("its process was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("its process ended with status {} and no result", WEXITSTATUS(status));
}

std::pair<std::string, int> run_process(std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw OutputError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], OUTCOME_FD);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string sent;
  if (error == 0) {
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
      if (n > 0) sent.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  if (error != 0)
    throw OutputError(fmt::format("cannot start a process: {}", std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return {sent, status};
}

Outcome run_apart(const Options& options, const Job& job) {
  Outcome o;
  o.rung = job.rung;
  o.problem = job.problem;
  std::vector<std::string> arguments = {"gemm_bench"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  arguments.insert(arguments.end(), {"--only", job.name()});
  const auto [sent, status] = run_process(arguments);
  try {
    unpack(json::from_cbor(sent), o);
  } catch (const json::exception&) {  // it ended before it had an outcome
    o.failed = how_it_ended(status);
  }
  return o;
}

void send_outcome(const Outcome& o) {
  const std::vector<uint8_t> bytes = json::to_cbor(packed(o));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(OUTCOME_FD, bytes.data() + done, bytes.size() - done);
    if (n <= 0) throw OutputError("--only: nobody waits for the outcome");
    done += static_cast<size_t>(n);
  }
}

}  // namespace gemm
