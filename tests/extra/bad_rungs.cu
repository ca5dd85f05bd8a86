#include <stdexcept>

#include "bad_rungs.h"
#include "registration.h"
#include "rung.h"

namespace {
using namespace gemm;

// Writes all of C, which is one element.
__global__ void one_kernel(GemmArgs<float> p) { p.C[0] = 1; }

void launch_too_many_threads(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(one_kernel, 1, dim3(2048), {}, stream, p);
}
void launch_too_much_memory(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(one_kernel, 1, dim3(1), {.smem = 1 << 20}, stream, p);
}

#if GEMM_ON_GPU
__global__ void wild_kernel(uintptr_t address) { *reinterpret_cast<volatile float*>(address) = 1; }
__global__ void trap_kernel() { __trap(); }

void launch_illegal_address(const GemmArgs<float>&, Stream stream) {
  gemm::launch(wild_kernel, 1, dim3(1), {}, stream, uintptr_t{8});
}
void launch_misaligned(const GemmArgs<float>& p, Stream stream) {
  gemm::launch(wild_kernel, 1, dim3(1), {}, stream, reinterpret_cast<uintptr_t>(p.C) + 1);
}
void launch_trap(const GemmArgs<float>&, Stream stream) {
  gemm::launch(trap_kernel, 1, dim3(1), {}, stream);
}
#endif

struct Bad {
  const char* name;
  LaunchFn<float> launch;
};
constexpr Bad ALL[] = {
    {"refused_threads", launch_too_many_threads},
    {"refused_memory", launch_too_much_memory},
#if GEMM_ON_GPU
    {"illegal_address", launch_illegal_address},
    {"misaligned", launch_misaligned},
    {"trap", launch_trap},
#endif
};

Rung find(const std::string& name) {
  for (const Bad& bad : ALL) {
    if (bad.name != name) continue;
    Rung r;
    r.id = r.name = name;
    r.dtype = DType::f32;
    r.backend = BACKEND;
    r.launch = calls_of(f32(bad.launch)).launch;
    return r;
  }
  throw std::logic_error("there is no bad rung " + name);
}

}  // namespace

#if GEMM_ON_GPU
gemm::Rung gemm::gpu_bad_rung(const char* name) { return find(name); }
#else
gemm::Rung gemm::sim_bad_rung(const char* name) { return find(name); }
#endif
