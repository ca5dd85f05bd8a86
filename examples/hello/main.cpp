// C = A B in the simulator, on host memory. gpu.cpp is the same on a GPU.
#include <cstdio>
#include <gemm/gemm.hpp>
#include <vector>

int main() try {
  const int m = 3, n = 2, k = 4;
  const std::vector<float> a(m * k, 1), b(k * n, 2);
  std::vector<float> c(m * n);

  gemm::matmul({.m = m, .n = n, .k = k}, a.data(), b.data(), c.data());

  for (int i = 0; i < m; ++i) std::printf("%g %g\n", c[i * n], c[i * n + 1]);
  const gemm::Plan<float> plan({.m = 4096, .n = 4096, .k = 4096});
  std::printf("on an H200: %s\n", plan.explain().c_str());
} catch (const gemm::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 3;
}
