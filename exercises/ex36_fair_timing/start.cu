// ex36: how many times as fast as the library a kernel is.
#include <algorithm>

#include "bench.h"

namespace {
using namespace gemm::lab;

constexpr int LAUNCHES = 15;

struct Buffers {
  Matrix A, B, C;
};

Buffers buffers(Machine& gpu, Sizes s) {
  return {gpu.allocate(s.M, s.K), gpu.allocate(s.K, s.N), gpu.allocate(s.M, s.N)};
}

void launch(Machine& gpu, const Kernel& kernel, const Buffers& b) {
  gpu.run(kernel, b.A, b.B, b.C);
}

double time(Machine& gpu, const Kernel& kernel, const Buffers& b) {
  gpu.start();
  launch(gpu, kernel, b);
  return gpu.stop();
}

double speedup(Machine& gpu, const Kernel& kernel, const std::vector<Kernel>& libraries, Sizes s) {
  const Buffers b = buffers(gpu, s);
  gpu.fill(b.A, 0);
  gpu.fill(b.B, 0);
  launch(gpu, kernel, b);
  double ours = 0, theirs = 0;
  for (int i = 0; i < LAUNCHES; ++i) ours += time(gpu, kernel, b);
  for (int i = 0; i < LAUNCHES; ++i) theirs += time(gpu, libraries.front(), b);
  return theirs / ours;
}

const Benchmark exercise(speedup);

}  // namespace
