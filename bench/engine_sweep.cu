// engine_sweep: what the engine's choices take on this GPU, for scripts that fit the estimate.
//
//   engine_sweep shapes.txt [most choices a shape] [seconds] > times.jsonl
//
// A line of shapes.txt is "M N K layout", layout being nn, nt, tn or tt. A line of output is a problem with
// its choices, the planner's first. A choice is the configuration, whether C^T is computed, and how C is
// cut: log2 of the cluster's CTAs along x (plus 4 without multicast) and along y, a tile's height, the
// parts of K (negative where a cluster adds them up). Then come its estimate and the measured time in
// microseconds, f16, L2 cold. A choice whose results are not cuBLAS's has "wrong".
#include <cublas_v2.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "device/current_device.h"
#include "engine/launch.h"
#include "engine/problem_of.h"

namespace {
using namespace gemm;

template <int... I>
void launch(const GemmArgs<half>& p, const engine::Choice& choice, const Arch& arch, Stream stream,
            std::integer_sequence<int, I...>) {
  ((choice.configuration == I ? engine_device::Launches<half, I>::plain(p, choice, arch, stream)
                              : void()),
   ...);
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "engine_sweep: %s\n", cudaGetErrorString(error));
  exit(3);
}

__global__ void fill(half* x, size_t n, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n;
       i += size_t{gridDim.x} * blockDim.x) {
    uint32_t h = uint32_t(i) * 2654435761u + seed;
    h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
    x[i] = half((int(h % 65) - 32) / 64.f);
  }
}
__global__ void largest_difference(const half* x, const half* y, int rows, int cols, int64_t ld,
                                   float* most) {
  float d = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < int64_t{rows} * cols;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t at = i / cols * ld + i % cols;
    const float a = float(x[at]), b = float(y[at]), e = fabsf(a - b) / (1 + fabsf(b));
    d = e == e ? fmaxf(d, e) : 1e9f;
  }
  atomicMax(reinterpret_cast<int*>(most), __float_as_int(d));
}

// Holds the stream until the host has queued the launches behind it: no launch is waited for.
__global__ void hold(const volatile int* go) {
  while (*go == 0) {
  }
}

struct Timed {
  engine::Choice choice;
  double us = 1e30;
  bool wrong = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "engine_sweep: shapes.txt [choices] [seconds]\n"), 2;
  std::ifstream file(argv[1]);
  if (!file) return fprintf(stderr, "engine_sweep: %s cannot be read\n", argv[1]), 2;
  const size_t most = argc > 2 ? std::stoul(argv[2]) : 24;
  const double limit = argc > 3 ? std::stod(argv[3]) : 1e9;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  const Arch& arch = current_arch();
  cublasHandle_t cublas;
  if (cublasCreate(&cublas) != CUBLAS_STATUS_SUCCESS) return 3;
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  cublasSetStream(cublas, stream);
  cudaEvent_t start, end;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  volatile int* go;
  check(cudaHostAlloc(const_cast<int**>(&go), sizeof *go, cudaHostAllocMapped));
  constexpr size_t POOL = size_t{3} << 30;  // bytes: inputs of several copies, so that L2 is cold
  half* pool;
  float* difference;
  check(cudaMalloc(&pool, POOL));
  check(cudaMalloc(&difference, 4));

  std::string line;
  while (std::getline(file, line) && seconds() < limit) {
    int M, N, K;
    std::string layout;
    if (!(std::istringstream(line) >> M >> N >> K >> layout)) continue;
    const bool ta = layout[0] == 't', tb = layout[1] == 't';
    const int64_t lda = ta ? M : K, ldb = tb ? K : N, ldc = N;
    const auto padded = [](int64_t n) { return (n + 127) / 128 * 128; };
    const int64_t a = padded(int64_t{M} * K), b = padded(int64_t{K} * N),
                  c = padded(int64_t{M} * N);
    const int64_t each = a + b + 2 * c;
    int copies = int(std::min<int64_t>(POOL / 2 / each, (int64_t{200} << 20) / (2 * each) + 2));
    if (copies < 1) continue;
    fill<<<2048, 256, 0, stream>>>(pool, copies * each, 1);  // the last shape's results lie there
    const auto args = [&](int i) {
      half* const at = pool + (i % copies) * each;
      GemmArgs<half> p{};
      p.M = M, p.N = N, p.K = K;
      p.A = at, p.lda = lda, p.B = at + a, p.ldb = ldb, p.C = at + a + b, p.ldc = ldc;
      p.op_a = ta ? Op::T : Op::N, p.op_b = tb ? Op::T : Op::N;
      return p;
    };
    const auto baseline = [&](int i, half* to) {
      const float one = 1, zero = 0;
      const GemmArgs<half> p = args(i);
      cublasGemmEx(cublas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, N, M, K,
                   &one, p.B, CUDA_R_16F, ldb, p.A, CUDA_R_16F, lda, &zero, to, CUDA_R_16F, ldc,
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    const PlannedProblem problem = problem_of(FusedArgs<half>{args(0), {}});
    static std::vector<engine::Choice> all(1 << 18);
    const int count = engine::candidates(problem, arch, all.data(), int(all.size()));
    std::sort(all.begin(), all.begin() + count,
              [](const auto& x, const auto& y) { return x.us < y.us; });
    // The best few, and the best of each configuration, either way round, of each kind of cluster, with
    // K split or not.
    std::vector<Timed> timed;
    std::set<std::array<int, 6>> seen;
    for (int i = 0; i < count; ++i) {
      const engine::Choice& choice = all[i];
      const engine::Rectangle cut = choice.config().ping_pong() ? engine::Rectangle{} : choice.cut;
      const bool first =
          seen.insert({choice.configuration, choice.swapped, cut.cluster.log_x, cut.cluster.log_y,
                       cut.multicast, cut.in_cluster ? 2 : cut.parts > 1})
              .second;
      if (timed.size() < most / 2 || (first && timed.size() < most && choice.us < 2.5 * all[0].us))
        timed.push_back({choice});
    }
    const auto run = [&](const engine::Choice& choice, int i) {
      launch(args(i), choice, arch, stream,
             std::make_integer_sequence<int, engine::CONFIGURATION_COUNT>());
    };
    baseline(0, pool + a + b + c);
    for (Timed& t : timed) {
      check(cudaMemsetAsync(pool + a + b, 0xff, c * 2, stream));
      check(cudaMemsetAsync(difference, 0, 4, stream));
      run(t.choice, 0);
      largest_difference<<<512, 256, 0, stream>>>(pool + a + b, pool + a + b + c, M, N, ldc,
                                                  difference);
      float d;
      check(cudaMemcpyAsync(&d, difference, 4, cudaMemcpyDeviceToHost, stream));
      check(cudaStreamSynchronize(stream));
      t.wrong = !(d < 4e-3f);
    }
    double cublas_us = 1e30;
    int next = 0;
    // About 200 us, as a sample of the harness, by the estimate: a large product runs once. cuBLAS runs
    // before the first launch, so that none of ours overlaps with it.
    const auto burst = [&](auto&& launch, double estimate, double& least) {
      const int n = std::clamp(int(std::ceil(200 / estimate)), 1, 12);
      *go = 0;
      hold<<<1, 1, 0, stream>>>(go);
      baseline(next, args(next).C);
      ++next;
      check(cudaEventRecord(start, stream));
      for (int i = 0; i < n; ++i) launch(next++);
      check(cudaEventRecord(end, stream));
      *go = 1;
      check(cudaEventSynchronize(end));
      float ms;
      check(cudaEventElapsedTime(&ms, start, end));
      least = std::min(least, double(ms) * 1000 / n);
    };
    for (int round = 0; round < 4; ++round) {
      burst([&](int i) { baseline(i, args(i).C); }, all[0].us, cublas_us);
      for (Timed& t : timed) burst([&](int i) { run(t.choice, i); }, t.choice.us, t.us);
    }
    printf("{\"m\":%d,\"n\":%d,\"k\":%d,\"layout\":\"%s\",\"cublas_us\":%.3f,\"choices\":[", M, N,
           K, layout.c_str(), cublas_us);
    bool first = true;
    for (const Timed& t : timed) {
      const engine::Choice& x = t.choice;
      printf("%s[%d,%d,", first ? "" : ",", x.configuration, int(x.swapped));
      if (x.config().ping_pong())
        printf("0,0,0,0");
      else
        printf("%d,%d,%d,%d", x.cut.cluster.log_x + (x.cut.multicast ? 0 : 4), x.cut.cluster.log_y,
               x.cut.height, x.cut.in_cluster ? -x.cut.parts : x.cut.parts);
      printf(",%.3f,%.3f%s]", x.us, t.us, t.wrong ? ",\"wrong\"" : "");
      first = false;
    }
    printf("]}\n");
    fflush(stdout);
  }
}
