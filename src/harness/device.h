// A place where rungs run: memory, launch, reference and check. Two implementations: the GPU and
// the simulator.
#pragma once

#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_errors.h"
#include "harness/check.h"
#include "harness/inputs.h"
#include "harness/problem.h"
#include "registry.h"

namespace gemm {

// The baseline (cuBLAS, cuBLASLt) could not compute this problem. The rung is verified and not
// timed.
struct BaselineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The result that a problem on given inputs should have before the activation, kept where the device can compare it.
class Reference {
 public:
  virtual ~Reference() = default;
};

// An M x N row-major matrix of doubles.
struct HostReference : Reference {
  std::vector<double> want;
  std::vector<double> scale_rows, scale_columns;  // of the epilogue; empty: 1

  // The scale of one element. In a batch m is a row of all.
  double scale(int64_t m, int64_t n) const {
    return (scale_rows.empty() ? 1 : scale_rows[m % std::ssize(scale_rows)]) *
           (scale_columns.empty() ? 1 : scale_columns[n]);
  }
};
// Double precision on the CPU through a BLAS library.
HostReference cpu_reference(const Problem& p, Inputs kind, uint64_t seed);
// The result of `sums` and `products`, which needs no multiplication (Generator::result).
HostReference known_result(const Problem& p, Inputs kind, uint64_t seed);

// The architecture that a device's code was compiled for: {90, true} is sm_90a. A program may have
// been built for sm_90 alone, or only bring PTX of sm_80.
struct CodeArch {
  int sm = 0;
  bool exact = false;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Backend backend() const = 0;
  virtual std::string name() const = 0;  // "NVIDIA H200", "simulator"
  virtual int sm()
      const = 0;  // compute capability, 90 = 9.0; the simulator runs everything: INT_MAX
  virtual CodeArch code() const = 0;
  virtual const Arch& arch() const = 0;  // what rungs are planned for; of the simulator an H200
  // Memory, 256-byte aligned. Throws std::bad_alloc when there is not enough.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* p) = 0;
  virtual void download(void* host, const void* device, size_t bytes) = 0;
  virtual void upload(void* device, const void* host, size_t bytes) = 0;
  // Fills a whole guarded allocation: C with `kind`, or with NaN when it is not read, and CANARY
  // around; other operands with `kind` and NaN around.
  virtual void fill(void* allocation, const Problem& p, Operand operand, Inputs kind,
                    uint64_t seed) = 0;
  // Whether an operand, its guards included, holds what fill() has written.
  virtual bool is_unchanged(const void* allocation, const Problem& p, Operand operand, Inputs kind,
                            uint64_t seed) = 0;
  // Launches and waits. Throws LaunchError or DeviceFault; std::bad_alloc when its workspace does
  // not fit.
  virtual void run(const Rung& rung, const GemmCall& call) = 0;
  // What `uniform` inputs must give.
  virtual std::unique_ptr<Reference> reference(const Problem& p, uint64_t seed) = 0;
  // Compares C (a guarded allocation) by check.h's rule: `uniform` with the reference, `sums` and
  // `products` with what they must give.
  virtual CheckResult check(const void* c, const Problem& p, Inputs kind, uint64_t seed,
                            const Reference* reference) = 0;
};

std::unique_ptr<Device> make_sim_device();
// Where the simulator's matrices lie that are allocated from now on: memory that other processes see,
// too. Null, as a rule: the process's own.
struct SimMemory {
  virtual ~SimMemory() = default;
  virtual void* allocate(size_t bytes) = 0;  // as Device's
  virtual void release(void* p) = 0;
};
void set_sim_memory(SimMemory* memory);
// CMake's option for a GPU: "-DCMAKE_CUDA_ARCHITECTURES=90a-real" for 90.
std::string build_option(int sm);
// The GPU with this number, as CUDA counts those that CUDA_VISIBLE_DEVICES leaves. Null when there
// is no usable GPU (or no CUDA in this build); `why` then says so in a few words. Throws
// std::out_of_range when there are GPUs but not this one; what() names those that there are.
std::unique_ptr<Device> make_gpu_device(std::string& why, int ordinal = 0);

}  // namespace gemm
