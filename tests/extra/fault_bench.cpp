// A GPU that breaks on demand, for fault_bench: the real gemm_bench, whose device and rungs are these.
// Memory and arithmetic are the host's; times are invented, so that its whole output is known.
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "harness/device.h"
#include "harness/errors.h"
#include "harness/jit.h"
#include "harness/timing.h"
#include "registry.h"
#include "sharded/fabric.h"

namespace gemm {
namespace {

constexpr int UNTIMED_K = 13;  // a problem that the baseline cannot compute

// As a GPU's, its context is gone after a fault: every later call says so.
class FakeGpu final : public Device {
 public:
  Backend backend() const override { return Backend::gpu; }
  std::string name() const override { return "Fake GPU"; }
  int sm() const override { return 90; }
  CodeArch code() const override { return {90, true}; }
  const Arch& arch() const override { return simulated_arch(); }
  void* allocate(size_t bytes) override {
    check_context();
    return host_->allocate(bytes);
  }
  void release(void* p) override { host_->release(p); }
  void download(void* host, const void* device, size_t bytes) override {
    check_context();
    host_->download(host, device, bytes);
  }
  void upload(void* device, const void* host, size_t bytes) override {
    check_context();
    host_->upload(device, host, bytes);
  }
  void fill(void* allocation, const Problem& p, Operand operand, Inputs kind,
            uint64_t seed) override {
    check_context();
    host_->fill(allocation, p, operand, kind, seed);
  }
  bool is_unchanged(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                    uint64_t seed) override {
    return host_->is_unchanged(allocation, p, operand, kind, seed);
  }
  void run(const Rung& rung, const GemmCall& call) override {
    check_context();
    try {
      rung.launch(call);
    } catch (const DeviceFault&) {
      lost_ = true;
      throw;
    }
  }
  std::unique_ptr<Reference> reference(const Problem& p, uint64_t seed) override {
    return host_->reference(p, seed);
  }
  CheckResult check(const void* c, const Problem& p, Inputs kind, uint64_t seed,
                    const Reference* reference) override {
    check_context();
    return host_->check(c, p, kind, seed, reference);
  }

 private:
  void check_context() const {
    if (lost_) throw DeviceFault("cudaMalloc: an illegal memory access was encountered");
  }
  std::unique_ptr<Device> host_ = make_sim_device();
  bool lost_ = false;
};

class FakeTimedProblem final : public TimedProblem {
 public:
  FakeTimedProblem(const Problem& p, const TimingOptions& options) : p_(p), options_(options) {
    if (p.K == UNTIMED_K) throw BaselineError("cublasGemmEx_64: not supported");
    baseline_ = {.name = "cuBLASLt#3",
                 .cublas_tflops = 47,
                 .cublaslt_tflops = 50,
                 .cublaslt_index = 3,
                 .cublaslt_tried = 8,
                 .max_error = 1e-6,
                 .max_error_roundings = 2};
  }
  const Baseline& baseline() const override { return baseline_; }
  Timing time(const Rung& rung) override {
    Timing t;
    const double tflops = 20 + 10 * std::stoi(rung.id.substr(1));
    t.tflops = {tflops, tflops - 1, tflops + 1};
    t.baseline_tflops = {50, 49, 51};
    t.ratio = {tflops / 50, tflops / 51, tflops / 49};
    t.seconds.assign(11, flops(p_) / tflops * 1e-12);
    t.launches_per_sample = 3, t.held = true;
    t.conditions = {1980, 1950, 600, 50, 30, "power"};
    t.after.elements = 1, t.after.max_error = 1e-6, t.after.max_error_roundings = 2;
    if (options_.alone_ms > 0) {
      t.alone = {rung.name, {tflops - 5, tflops - 6, tflops - 4}, t.conditions};
      t.alone_baseline = {"cuBLAS", {45, 44, 46}, t.conditions};
    }
    return t;
  }
  std::vector<double> compare(const std::vector<Rung>& rungs) override {
    if (p_.M == UNTIMED_K) throw DeviceFault("v14, while tuned: an illegal memory access");
    if (p_.N == UNTIMED_K) throw WrongResult("v14, after timing: 1 of 52 elements wrong");
    std::vector<double> tflops;
    for (size_t i = 0; i < rungs.size(); ++i) tflops.push_back(10.0 * (i + 1));
    return tflops;
  }

 private:
  Problem p_;
  TimingOptions options_;
  Baseline baseline_;
};

// C = alpha A B + beta C in floats; N, N only.
void multiply(const GemmCall& c) {
  const auto* A = static_cast<const float*>(c.A);
  const auto* B = static_cast<const float*>(c.B);
  auto* C = static_cast<float*>(c.C);
  for (int m = 0; m < c.M; ++m)
    for (int n = 0; n < c.N; ++n) {
      float sum = 0;
      for (int k = 0; k < c.K; ++k) sum += A[m * c.lda + k] * B[k * c.ldb + n];
      float& out = C[m * c.ldc + n];
      out = c.epilogue.beta == 0 ? c.epilogue.alpha * sum
                                 : c.epilogue.alpha * sum + c.epilogue.beta * out;
    }
}

// A kernel of tiles: asks the compiler, where there is one.
void compile_and_multiply(const GemmCall& c) {
  if (KernelCompiler* const compiler = kernel_compiler())
    compiler->kernel({"a kernel of M = " + std::to_string(c.M), "", "", 0});
  multiply(c);
}

void off_by_one(const GemmCall& c) {
  multiply(c);
  *static_cast<float*>(c.C) += 1;
}

volatile uintptr_t address = 8;  // of no memory; volatile: the compiler must not see it

int add(const char* file, const char* idea, void (*launch)(const GemmCall&), Needs needs = {}) {
  Rung r;
  r.file = file, r.idea = idea, r.dtype = DType::f32, r.backend = Backend::gpu;
  r.launch = launch, r.needs = needs;
  detail::add(std::move(r));
  return 0;
}

int add_with_variants(const char* file) {
  Rung r;
  r.file = file, r.idea = "several configurations", r.dtype = DType::f32, r.backend = Backend::gpu;
  r.launch = multiply;
  const auto every = [](const GemmCall&) { return true; };
  r.variants = {{"small", multiply, every}, {"large", multiply, every}, {"odd", off_by_one, every}};
  r.variants[2].fits = [](const GemmCall& c) { return c.M == 7; };
  r.plan = [](const Rung&, const GemmCall&, const Arch&, int variant) {
    return Plan{.variant = std::max(variant, 0)};
  };
  r.explain = [](const GemmCall&, const Plan&) -> std::string { return "small: it always is"; };
  detail::add(std::move(r));
  return 0;
}

const int rungs_of_the_test[] = {
    add("v01_right.cu", "what a rung should do", multiply),
    add("v02_right.cu", "the same once more", multiply),
    add("v03_wrong.cu", "adds one to the first element", off_by_one),
    add("v04_refused.cu", "a launch that the machine refuses",
        [](const GemmCall&) { throw LaunchError("v04_refused f32, launch: too many resources"); }),
    add("v05_faults.cu", "breaks the device",
        [](const GemmCall&) {
          throw DeviceFault("v05_faults f32, while running: an illegal memory access");
        }),
    add("v06_memory.cu", "wants a larger workspace than there is",
        [](const GemmCall&) { throw std::bad_alloc(); }),
    add("v07_segfault.cu", "its host code reads address 8",
        [](const GemmCall&) { *reinterpret_cast<volatile int*>(address) = 0; }),
    add("v08_aborts.cu", "its host code aborts", [](const GemmCall&) { std::abort(); }),
    add("v09_hangs.cu", "never returns",
        [](const GemmCall&) {
          for (;;) sleep(60);
        }),
    add("v10_newer.cu", "needs another GPU", multiply, {.sm = 100}),
    add("v11_exits.cu", "its host code ends the program", [](const GemmCall&) { std::_Exit(0); }),
    add("v12_throws.cu", "an error with ESC and a line end in it",
        [](const GemmCall&) { throw LaunchError("v12: \033[31mred\nand \xff"); }),
    add_with_variants("v14_variants.cu"),
    // Its id is that of a rung that is written in tiles; for tests of --jit alone.
    getenv("FAULT_BENCH_JIT") == nullptr
        ? 0
        : add("v29_tiles.cu", "compiled at run time", compile_and_multiply)};

// Takes 250 ms for a kernel, of which M = 7 has none.
class FakeCompiler final : public JitCompiler {
 public:
  std::string name() const override { return "NVRTC 0.0"; }
  JitCost cost() const override { return cost_; }
  void* kernel(const KernelProgram& program) override {
    if (program.kernel.ends_with("= 7")) throw LaunchError("NVRTC 0.0 refuses gemm_v29: no");
    ++cost_.kernels;
    cost_.ms += 250;
    return nullptr;
  }

 private:
  JitCost cost_;
};

}  // namespace

std::unique_ptr<JitCompiler> make_jit_compiler() {
  if (getenv("FAULT_BENCH_NO_NVRTC") != nullptr) throw UsageError("no NVRTC to compile with");
  return std::make_unique<FakeCompiler>();
}

std::unique_ptr<Device> make_gpu_device(std::string&, int ordinal) {
  if (ordinal > 0) throw std::out_of_range("there is GPU 0 alone");
  return std::make_unique<FakeGpu>();
}
std::unique_ptr<Fabric> make_gpu_fabric(const std::vector<int>&, std::string& why) {
  why = "there is 1 GPU";
  return nullptr;
}
std::unique_ptr<TimedProblem> make_timed_problem(Device&, const Problem& p,
                                                 const TimingOptions& options,
                                                 std::shared_ptr<const Reference>) {
  return std::make_unique<FakeTimedProblem>(p, options);
}
Peaks measure_peaks(Device&) { return {600, 600, 300, 800, 400, 4.0}; }
std::map<std::string, std::string> describe_gpu(Device&) { return {{"gpu", "Fake GPU"}}; }

}  // namespace gemm
