// What this card's memory levels can do, for the roofline and the introduction: bytes a second by
// plain reads from HBM, L2 and shared memory, and the cycles that one dependent load takes from HBM,
// L2, L1 and shared memory. Prints JSON: build/memory_limits > plots/results/<gpu>/memory_limits.json
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "memory_limits: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// Keeps the compiler from dropping reads whose values nobody wants.
__device__ void keep(uint32_t x, uint32_t* out) {
  if (x == 0x9e3779b9) *out = x;
}

constexpr int THREADS = 512;

// Reads `groups` groups of 16 bytes `repeats` times, all blocks together, past L1.
__global__ void __launch_bounds__(THREADS)
    read_global(const uint4* in, int64_t groups, int repeats, uint32_t* out) {
  const int64_t step = int64_t{gridDim.x} * THREADS;
  uint32_t sum = 0;
  for (int repeat = 0; repeat < repeats; ++repeat)
#pragma unroll 8
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < groups; i += step) {
      const uint4 x = __ldcg(in + i);
      sum += x.x ^ x.y ^ x.z ^ x.w;
    }
  keep(sum, out);
}

constexpr int SHARED_GROUPS = 2048;  // 32 KB

// Every warp reads 512 bytes in a row at a time, without bank conflicts, at places that move.
__global__ void __launch_bounds__(THREADS) read_shared(int repeats, uint32_t* out) {
  __shared__ uint4 s[SHARED_GROUPS];
  for (int i = threadIdx.x; i < SHARED_GROUPS; i += THREADS) s[i] = make_uint4(i, 1, 2, 3);
  __syncthreads();
  uint32_t sum = 0;
  for (int repeat = 0; repeat < repeats; ++repeat)
#pragma unroll 8
    for (int i = 0; i < SHARED_GROUPS; i += THREADS) {
      const uint4 x = s[(i + threadIdx.x + repeat * 32) % SHARED_GROUPS];
      sum += x.x ^ x.y ^ x.z ^ x.w;
    }
  keep(sum, out);
}

// Pointer chase: one thread follows a cycle of elements. Counts clock cycles a step. PAST_L1: loads
// that L1 does not keep.
template <bool PAST_L1>
__global__ void chase(const uint32_t* next, int steps, uint32_t* out, int64_t* cycles) {
  uint32_t at = 0;
  for (int i = 0; i < steps; ++i) at = PAST_L1 ? __ldcg(next + at) : next[at];  // warms the cache
  const int64_t begin = clock64();
  for (int i = 0; i < steps; ++i) at = PAST_L1 ? __ldcg(next + at) : next[at];
  *cycles = (clock64() - begin) / steps;
  keep(at, out);
}

__global__ void chase_shared(int steps, uint32_t* out, int64_t* cycles) {
  __shared__ uint32_t next[1024];
  for (int i = 0; i < 1024; ++i) next[i] = (i + 33) % 1024;
  uint32_t at = 0;
  const int64_t begin = clock64();
  for (int i = 0; i < steps; ++i) at = next[at];
  *cycles = (clock64() - begin) / steps;
  keep(at, out);
}

// The best of several runs, in milliseconds.
template <class Launch>
double milliseconds(Launch launch) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float best = 1e30f;
  for (int i = 0; i < 10; ++i) {
    check(cudaEventRecord(begin));
    launch();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaGetLastError());
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    best = std::min(best, ms);
  }
  return best;
}

// A cycle through `elements` places, a cache line apart, in random order; steps of it are timed.
template <bool PAST_L1>
int64_t latency(size_t lines, int steps, uint32_t* memory, uint32_t* out, int64_t* cycles) {
  constexpr size_t LINE = 64;  // elements: 256 bytes
  std::vector<uint32_t> order(lines), next(lines * LINE);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin() + 1, order.end(), std::mt19937(1));
  for (size_t i = 0; i < lines; ++i)
    next[order[i] * LINE] = static_cast<uint32_t>(order[(i + 1) % lines] * LINE);
  check(cudaMemcpy(memory, next.data(), next.size() * 4, cudaMemcpyHostToDevice));
  chase<PAST_L1><<<1, 1>>>(memory, steps, out, cycles);
  check(cudaDeviceSynchronize());
  return *cycles;
}

}  // namespace

int main() {
  constexpr size_t HBM_BYTES = size_t{2} << 30, L2_BYTES = size_t{16} << 20;
  constexpr int L2_REPEATS = 64, SHARED_REPEATS = 4096, STEPS = 4096;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  const int sms = device.multiProcessorCount;
  uint32_t *memory = nullptr, *out = nullptr;
  int64_t* cycles = nullptr;
  check(cudaMalloc(&memory, HBM_BYTES));
  check(cudaMemset(memory, 0, HBM_BYTES));
  check(cudaMalloc(&out, 4));
  check(cudaMallocManaged(&cycles, sizeof *cycles));
  const auto* groups = reinterpret_cast<const uint4*>(memory);

  const double hbm =
      milliseconds([&] { read_global<<<sms * 4, THREADS>>>(groups, HBM_BYTES / 16, 1, out); });
  const double l2 = milliseconds(
      [&] { read_global<<<sms * 4, THREADS>>>(groups, L2_BYTES / 16, L2_REPEATS, out); });
  const double shared =
      milliseconds([&] { read_shared<<<sms * 4, THREADS>>>(SHARED_REPEATS, out); });
  const double shared_bytes = double(sms) * 4 * SHARED_REPEATS * SHARED_GROUPS * 16;
  std::printf("{\n  \"gpu\": \"%s\",\n", device.name);
  std::printf("  \"hbm_read_tbs\": %.3f,\n", HBM_BYTES / hbm * 1e-9);
  std::printf("  \"l2_tbs\": %.3f,\n", double(L2_BYTES) * L2_REPEATS / l2 * 1e-9);
  std::printf("  \"shared_tbs\": %.3f,\n", shared_bytes / shared * 1e-9);
  // 1 GB is far more than L2 holds, 8 MB fit in it, 64 KB in L1. Of 1 GB few lines are visited, once.
  std::printf("  \"hbm_latency_cycles\": %lld,\n",
              (long long)latency<true>(size_t{4} << 20, STEPS, memory, out, cycles));
  std::printf("  \"l2_latency_cycles\": %lld,\n",
              (long long)latency<true>(size_t{1} << 10, STEPS, memory, out, cycles));
  std::printf("  \"l1_latency_cycles\": %lld,\n",
              (long long)latency<false>(256, STEPS, memory, out, cycles));
  chase_shared<<<1, 1>>>(STEPS, out, cycles);
  check(cudaDeviceSynchronize());
  std::printf("  \"shared_latency_cycles\": %lld\n}\n", (long long)*cycles);
}
