#include "own/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "commands/jobs.h"
#include "commands/run.h"
#include "harness/errors.h"
#include "harness/text.h"
#include "own/limits.h"
#include "own/rungs.h"
#include "sim/simulator.h"

namespace gemm::own {
namespace {

// A rung for each type, which calls the function.
void add(const std::string& name, const std::string& dtypes, bool contiguous,
         gemm_judge_function function, Device& device) {
  std::string dtype;
  for (std::istringstream in(dtypes); std::getline(in, dtype, ',');) {
    static std::vector<std::unique_ptr<std::string>> names;
    const char* const its = names.emplace_back(std::make_unique<std::string>(dtype))->c_str();
    const bool on_gpu = device.backend() == Backend::gpu;
    Rung& rung = add_rung(name + ".py", {dtype_of(dtype), !contiguous, false, true},
                          device.backend(), [=](const GemmCall& c) {
                            const gemm_judge_call call = {c.M,
                                                          c.N,
                                                          c.K,
                                                          c.op_a == Op::T,
                                                          c.op_b == Op::T,
                                                          c.lda,
                                                          c.ldb,
                                                          c.ldc,
                                                          c.A,
                                                          c.B,
                                                          c.C,
                                                          on_gpu ? c.stream : nullptr,
                                                          its};
                            if (const char* const why = function(&call)) {
                              const std::string text = printable(why, 400);
                              if (on_gpu) throw std::runtime_error(text);
                              throw sim::Error(text);
                            }
                          });
    rung.idea = "a function of your own: " + name;
    rung.needs.transposed = true;
    rung.diagnose = [&rung, &device](int M, int N, int K, const std::string& wrong) {
      return diagnose(rung, device, M, N, K, wrong, {});
    };
  }
}

ExitStatus judge(const char* name, const char* dtypes, bool contiguous,
                 gemm_judge_function function, int argc, const char* const* argv) {
  const Options options = parse_command_line(argc, argv);
  std::string note;
  static std::unique_ptr<Device> device;
  if (device != nullptr) throw UsageError("a process judges once: start another one");
  device = choose_device(options, note);
  add(name, dtypes, contiguous, function, *device);
  return run(options);
}

}  // namespace
}  // namespace gemm::own

int gemm_judge(const char* name, const char* dtypes, int contiguous, gemm_judge_function function,
               int argc, const char* const* argv) {
  const auto say = [](gemm::ExitStatus status, const char* line) {
    std::fflush(stdout);
    fmt::print(stderr, "judge: {}\n", gemm::printable(line, 2000));
    return status;
  };
  try {
    const int status = gemm::own::judge(name, dtypes, contiguous != 0, function, argc, argv);
    std::fflush(stdout);
    return status;
  } catch (const gemm::UsageError& e) {
    return say(gemm::EXIT_USAGE, e.what());
  } catch (const std::exception& e) {
    return say(gemm::EXIT_FAILED, e.what());
  }
}

const char* gemm_judge_backend() {
  std::string why;
  return gemm::make_gpu_device(why) != nullptr ? "gpu" : "simulator";
}
