// The GPU half of the harness in a build without CUDA: there is never a GPU, so the rest cannot be
// reached.
#include "harness/device.h"
#include "harness/jit.h"
#include "harness/timing.h"
#include "sharded/fabric.h"

namespace gemm {
namespace {
[[noreturn]] void unreachable() { throw std::logic_error("this build has no CUDA"); }
}  // namespace

std::unique_ptr<Device> make_gpu_device(std::string& why, int) {
  why = "built without a CUDA toolkit";
  return nullptr;
}
std::unique_ptr<Fabric> make_gpu_fabric(const std::vector<int>&, std::string& why) {
  why = "built without a CUDA toolkit";
  return nullptr;
}
std::unique_ptr<TimedProblem> make_timed_problem(Device&, const Problem&, const TimingOptions&,
                                                 std::shared_ptr<const Reference>) {
  unreachable();
}
Peaks measure_peaks(Device&) { unreachable(); }
std::map<std::string, std::string> describe_gpu(Device&) { unreachable(); }
std::unique_ptr<JitCompiler> make_jit_compiler() { unreachable(); }

}  // namespace gemm
