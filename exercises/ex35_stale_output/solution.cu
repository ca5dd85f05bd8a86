// ex35: the check of a benchmark: is the kernel's result that of the library?
#include <cmath>

#include "bench.h"

namespace {
using namespace gemm::lab;

bool close(const std::vector<float>& got, const std::vector<float>& want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= 1e-4f)) return false;
  return true;
}

bool verified(Machine& gpu, const Kernel& kernel, const Kernel& library, Sizes s) {
  const Matrix A = gpu.allocate(s.M, s.K);
  const Matrix B = gpu.allocate(s.K, s.N);
  const Matrix C = gpu.allocate(s.M, s.N);
  gpu.fill_random(A, 1);
  gpu.fill_random(B, 2);

  gpu.run(library, A, B, C);
  const std::vector<float> want = gpu.read(C);
  gpu.fill(C, NAN);
  gpu.run(kernel, A, B, C);
  return close(gpu.read(C), want);
}

const Benchmark exercise(verified);

}  // namespace
