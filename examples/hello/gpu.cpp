// C = A B on a GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <gemm/gemm.hpp>

int main() try {
  const int m = 3, n = 2, k = 4;
  float *a = nullptr, *b = nullptr, *c = nullptr;
  if (cudaMallocManaged(&a, sizeof(float) * m * k) != cudaSuccess ||
      cudaMallocManaged(&b, sizeof(float) * k * n) != cudaSuccess ||
      cudaMallocManaged(&c, sizeof(float) * m * n) != cudaSuccess)
    return std::puts("no GPU"), 77;
  for (int i = 0; i < m * k; ++i) a[i] = 1;
  for (int i = 0; i < k * n; ++i) b[i] = 2;

  gemm::matmul({.m = m, .n = n, .k = k}, a, b, c);

  if (cudaDeviceSynchronize() != cudaSuccess) return std::puts("the GPU failed"), 3;
  for (int i = 0; i < m; ++i) std::printf("%g %g\n", c[i * n], c[i * n + 1]);
} catch (const gemm::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 3;
}
