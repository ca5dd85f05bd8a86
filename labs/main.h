// The main() of a file with a gemm: multiplies, checks against the CPU, times.
//
//   nvcc -arch=native sgemm_v08.cu && ./a.out    checks small problems, times 2048 x 2048 x 2048
//   ./a.out 1000 500 300                         times M = 1000, N = 500, K = 300
//
// The simulator gets no main(): there gemm_bench calls the file's gemm.
#pragma once
#ifdef __CUDACC__
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void succeeded(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(3);
}

// Runs C = alpha * A * B + beta * C, and returns whether it is right. Small integers: sums are exact.
template <class T, class TC, class Gemm>
bool run(Gemm gemm, int M, int N, int K, float alpha, float beta, bool check) {
  const int lda = K, ldb = N, ldc = N + (beta != 0 ? 3 : 0);  // also rows with a gap
  T *A, *B;
  TC* C;
  succeeded(cudaMallocManaged(&A, sizeof(T) * M * lda));
  succeeded(cudaMallocManaged(&B, sizeof(T) * K * ldb));
  succeeded(cudaMallocManaged(&C, sizeof(TC) * M * ldc));
  for (size_t i = 0; i < size_t(M) * lda; ++i) A[i] = T(float((i ^ i >> 4) % 5) - 2);
  for (size_t i = 0; i < size_t(K) * ldb; ++i) B[i] = T(float((i ^ i >> 3) % 7) - 3);
  for (size_t i = 0; i < size_t(M) * ldc; ++i) C[i] = TC(beta == 0 ? NAN : float(i % 3));
  cudaEvent_t begin, end;
  succeeded(cudaEventCreate(&begin)), succeeded(cudaEventCreate(&end));
  const int runs = check ? 1 : 10;
  for (int i = check ? 0 : -1; i < runs; ++i) {  // the first one of a timing warms up
    if (i == 0) succeeded(cudaEventRecord(begin));
    gemm(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc, nullptr);
  }
  succeeded(cudaEventRecord(end)), succeeded(cudaGetLastError());
  succeeded(cudaDeviceSynchronize());
  int64_t wrong = 0;
  for (int m = 0; check && m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float want = 0;
      for (int k = 0; k < K; ++k) want += float(A[m * lda + k]) * float(B[k * ldb + n]);
      want = alpha * want + (beta == 0 ? 0 : beta * float((size_t(m) * ldc + n) % 3));
      const float got = float(C[m * ldc + n]);
      if (got == float(TC(want))) continue;
      if (++wrong == 1) std::printf("  C[%d][%d] is %g, and should be %g\n", m, n, got, want);
    }
  float ms = 0;
  succeeded(cudaEventElapsedTime(&ms, begin, end));
  std::printf("%d x %d x %d, alpha %g, beta %g: ", M, N, K, alpha, beta);
  if (check) std::printf(wrong ? "%lld elements wrong\n" : "right\n", (long long)wrong);
  if (!check) std::printf("%.3g TFLOPS\n", 2e-9 * M * N * K * runs / ms);
  succeeded(cudaFree(A)), succeeded(cudaFree(B)), succeeded(cudaFree(C));
  return wrong == 0;
}

// T and TC from the file's gemm.
template <class T, class TC>
int run_all(void (*gemm)(int, int, int, float, const T*, int, const T*, int, float, TC*, int,
                         cudaStream_t),
            int argc, char** argv) {
  bool right = true;
  for (const int n : {256, 1, 33, 129}) right &= run<T, TC>(gemm, n, 2 * n + 1, n + 7, 1, 0, true);
  right &= run<T, TC>(gemm, 70, 64, 48, 2, 0.5f, true);
  int shape[3] = {2048, 2048, 2048};
  for (int i = 0; i < 3 && i + 1 < argc; ++i) shape[i] = std::atoi(argv[i + 1]);
  if (right) run<T, TC>(gemm, shape[0], shape[1], shape[2], 1, 0, false);
  return right ? 0 : 1;
}

int main(int argc, char** argv) { return run_all(gemm, argc, argv); }
#endif
