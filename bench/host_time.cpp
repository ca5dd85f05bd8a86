// Host time of a call of the library: what a program pays before its thread goes on. Whole calls need
// a GPU, and stand beside cublasGemmEx's; the part before CUDA's launch call is measured everywhere.
//
//   build/host_time_gpu --benchmark_out=host_time.json   a GPU
//   build/host_time                                      no GPU: the part before the launch
//
// Entries: f16/1024/gemm_run and so on; nanoseconds a call, p10, p50 and p90 of 51 samples.
#include <benchmark/benchmark.h>
#include <gemm/gemm.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "launch_mode.h"
#ifdef HOST_TIME_ON_GPU
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#endif

namespace {

constexpr int SAMPLES = 51, CALLS = 50;  // calls a sample: fewer than CUDA queues

double percentile(const std::vector<double>& samples, double p) {
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(p * static_cast<double>(sorted.size() - 1) + 0.5)];
}

void fail(const char* what) {
  std::fprintf(stderr, "host_time: %s\n", what);
  std::exit(3);
}
void check(gemm_status status) {
  if (status != GEMM_OK) fail(gemm_last_error());
}

// Registers a benchmark of `call`, with `wait` after each sample, untimed.
void add(const std::string& name, std::function<void()> call, std::function<void()> wait) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 call();  // what is done once
                                 wait();
                                 for (auto _ : state) {
                                   const auto begin = std::chrono::steady_clock::now();
                                   for (int i = 0; i < CALLS; ++i) call();
                                   const std::chrono::duration<double> all =
                                       std::chrono::steady_clock::now() - begin;
                                   state.SetIterationTime(all.count() / CALLS);
                                   wait();
                                 }
                               })
      ->UseManualTime()
      ->Unit(benchmark::kNanosecond)
      ->Iterations(1)
      ->Repetitions(SAMPLES)
      ->ReportAggregatesOnly()
      ->ComputeStatistics("p10", [](const std::vector<double>& v) { return percentile(v, 0.1); })
      ->ComputeStatistics("p50", [](const std::vector<double>& v) { return percentile(v, 0.5); })
      ->ComputeStatistics("p90", [](const std::vector<double>& v) { return percentile(v, 0.9); });
}

// Everything of a call but CUDA's launches and allocations.
void without_launch(const std::function<void()>& call) {
  const gemm::LaunchModeScope scope({.prepare = true, .prepared = true});
  call();
}

struct Operands {
  void *a, *b, *c;
};

Operands allocate(size_t bytes) {
  Operands x{};
  for (void** p : {&x.a, &x.b, &x.c}) {
#ifdef HOST_TIME_ON_GPU
    if (cudaMalloc(p, bytes) != cudaSuccess || cudaMemset(*p, 0, bytes) != cudaSuccess)
      fail("no GPU, or no memory on it");
#else
    // Nothing is launched, and nobody reads there: addresses are enough.
    *p = reinterpret_cast<void*>((uintptr_t{1} << 32) + bytes);
#endif
  }
  return x;
}

void add_all(const char* type_name, int32_t type, int size) {
  gemm_problem problem = GEMM_PROBLEM_DEFAULT;
  problem.m = problem.n = problem.k = size;
  problem.type_a = problem.type_b = problem.type_c = type;
  gemm_plan plan;
  check(gemm_plan_create(&problem, 0, &plan));
  const Operands x = allocate(size_t(size) * size * (type == GEMM_F32 ? 4 : 2));
  const std::string name = std::string(type_name) + "/" + std::to_string(size) + "/";
  const auto nothing = [] {};

  void* stream = nullptr;
#ifdef HOST_TIME_ON_GPU
  static cudaStream_t own = nullptr;
  if (own == nullptr && cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) != cudaSuccess)
    fail("no stream");
  stream = own;
#endif
  const auto matmul = [=] { check(gemm_matmul(&problem, nullptr, x.a, x.b, x.c, stream, 0)); };
  const auto run = [=] { check(gemm_run(&plan, nullptr, x.a, x.b, x.c, stream)); };
  add(
      name + "gemm_matmul_before_launch", [=] { without_launch(matmul); }, nothing);
  add(
      name + "gemm_run_before_launch", [=] { without_launch(run); }, nothing);

#ifdef HOST_TIME_ON_GPU
  const auto wait = [] {
    if (cudaStreamSynchronize(own) != cudaSuccess) fail("the GPU failed");
  };
  add(name + "gemm_matmul", matmul, wait);
  add(name + "gemm_run", run, wait);
  static cublasHandle_t blas = nullptr;
  if (blas == nullptr && (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS ||
                          cublasSetStream(blas, own) != CUBLAS_STATUS_SUCCESS))
    fail("no cuBLAS");
  add(
      name + "cublasGemmEx",
      [=] {
        const float alpha = 1, beta = 0;
        const cudaDataType_t of = type == GEMM_F32 ? CUDA_R_32F : CUDA_R_16F;
        if (cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &alpha, x.b, of, size,
                         x.a, of, size, &beta, x.c, of, size, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS)
          fail("cuBLAS failed");
      },
      wait);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const int size : {256, 1024, 4096}) {
    add_all("f16", GEMM_F16, size);
    add_all("f32", GEMM_F32, size);
  }
  benchmark::AddCustomContext("backend", gemm_backend());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
