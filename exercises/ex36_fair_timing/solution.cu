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
  std::vector<Buffers> sets;
  for (int64_t bytes = 0; bytes <= 2 * gpu.l2_bytes() || sets.size() < 3;) {
    const Buffers& b = sets.emplace_back(buffers(gpu, s));
    gpu.fill_random(b.A, 2 * sets.size());
    gpu.fill_random(b.B, 2 * sets.size() + 1);
    for (const Matrix& m : {b.A, b.B, b.C}) bytes += Machine::bytes(m);
  }
  int next = 0;
  const auto timed = [&](const Kernel& k) { return time(gpu, k, sets[next++ % sets.size()]); };
  double slowest = 1e30;  // against the fastest library of the same type
  for (const Kernel& library : libraries) {
    if (library.type != kernel.type) continue;
    for (const Kernel& k : {kernel, library}) launch(gpu, k, sets[next++ % sets.size()]);
    std::vector<double> ratios;
    for (int i = 0; i < LAUNCHES; ++i) {
      const double ours = timed(kernel);
      ratios.push_back(timed(library) / ours);
    }
    std::ranges::sort(ratios);
    slowest = std::min(slowest, ratios[ratios.size() / 2]);
  }
  return slowest;
}

const Benchmark exercise(speedup);

}  // namespace
