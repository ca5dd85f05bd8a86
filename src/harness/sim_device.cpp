#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "harness/device.h"
#include "harness/host_matrix.h"
#include "launch_mode.h"
#include "launch_refused.h"
#include "sim/simulator.h"

namespace gemm {
namespace {

SimMemory* sim_memory = nullptr;

class SimDevice final : public Device {
 public:
  Backend backend() const override { return Backend::sim; }
  std::string name() const override { return "simulator"; }
  int sm() const override { return INT_MAX; }
  CodeArch code() const override { return {INT_MAX, true}; }
  const Arch& arch() const override { return simulated_arch(); }

  void* allocate(size_t bytes) override {
    if (memory_ != nullptr) return memory_->allocate(bytes);
    void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void release(void* p) override {
    filled_.erase(p);
    memory_ != nullptr ? memory_->release(p) : std::free(p);
  }
  void download(void* host, const void* device, size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void upload(void* device, const void* host, size_t bytes) override {
    std::memcpy(device, host, bytes);
  }

  void fill(void* allocation, const Problem& p, Operand operand, Inputs kind,
            uint64_t seed) override {
    fill_host(allocation, p, operand, kind, seed);
    if (operand == Operand::C) return;
    const char* const bytes = static_cast<const char*>(allocation);
    Filled& filled = filled_[allocation];
    filled.problem = p, filled.operand = operand, filled.kind = kind, filled.seed = seed;
    filled.bytes.assign(bytes, bytes + layout(p, operand).bytes);
  }
  bool is_unchanged(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                    uint64_t seed) override {
    const auto found = filled_.find(allocation);
    if (found == filled_.end() || !found->second.is_of(p, operand, kind, seed))
      return is_unchanged_host(allocation, p, operand, kind, seed);
    const std::vector<char>& bytes = found->second.bytes;
    return std::memcmp(allocation, bytes.data(), bytes.size()) == 0;
  }
  // On a stream that is no other's, so that a kernel on the default stream is seen.
  void run(const Rung& rung, const GemmCall& call) override {
    GemmCall on_stream = call;
    LaunchMode mode = launch_mode();
    on_stream.stream = mode.stream = this;
    const LaunchModeScope scope(mode);
    try {
      rung.launch(on_stream);
    } catch (const sim::Error& e) {
      throw LaunchError(rung.name + ": " + e.what());
    } catch (const LaunchRefused& e) {
      throw LaunchError(rung.name + ": " + e.what());
    }
  }
  std::unique_ptr<Reference> reference(const Problem& p, uint64_t seed) override {
    return std::make_unique<HostReference>(cpu_reference(p, Inputs::uniform, seed));
  }
  CheckResult check(const void* c, const Problem& p, Inputs kind, uint64_t seed,
                    const Reference* reference) override {
    if (kind == Inputs::uniform)
      return check_host(c, p, kind, dynamic_cast<const HostReference&>(*reference));
    return check_host(c, p, kind, known_result(p, kind, seed));
  }

 private:
  // An input as fill() wrote it: to compute its elements again would take as long as many a kernel.
  struct Filled {
    Problem problem;
    Operand operand = Operand::A;
    Inputs kind = Inputs::uniform;
    uint64_t seed = 0;
    std::vector<char> bytes;
    bool is_of(const Problem& p, Operand its, Inputs inputs, uint64_t its_seed) const {
      return problem == p && operand == its && kind == inputs && seed == its_seed;
    }
  };

  SimMemory* const memory_ = sim_memory;
  std::map<const void*, Filled> filled_;  // by allocation; one thread uses a device
};

}  // namespace

void set_sim_memory(SimMemory* memory) { sim_memory = memory; }

std::unique_ptr<Device> make_sim_device() { return std::make_unique<SimDevice>(); }

}  // namespace gemm
