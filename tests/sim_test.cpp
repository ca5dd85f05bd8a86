// The simulator, through the path that rungs take: kernels launched by gemm::launch. Each test
// fails without the behaviour that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device/ptx/cp_async.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mma.cuh"
#include "rung.h"
#include "sim/simulator.h"

namespace {

using namespace gemm;
using ::testing::HasSubstr;

std::string line(int n) { return "sim_test.cpp:" + std::to_string(n); }

// What launching says when it throws; empty if it does not.
template <class... Params, class... Args>
std::string error_of(void (*kernel)(Params...), int64_t grid, dim3 block, Args... args) {
  try {
    gemm::launch(kernel, grid, block, {}, nullptr, args...);
  } catch (const sim::Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "";
}

// Restores the default number of OS threads.
struct OsThreads {
  explicit OsThreads(int n) { sim::set_threads(n); }
  ~OsThreads() { sim::set_threads(0); }
};

// --------------------------------------------------------------------- threads, blocks, barriers

__global__ void write_indices(int* out) {
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  out[blockIdx.x * threads + thread] =
      blockIdx.x * 1000000 + threadIdx.x * 10000 + threadIdx.y * 100 + threadIdx.z + gridDim.x;
}

TEST(SimLaunch, EveryThreadRunsOnceWithItsIndices) {
  std::vector<int> out(5 * 4 * 3 * 2, -1);
  gemm::launch(write_indices, 5, dim3(4, 3, 2), {}, nullptr, out.data());
  for (int b = 0, i = 0; b < 5; ++b)
    for (int z = 0; z < 2; ++z)
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 4; ++x) EXPECT_EQ(out[i++], b * 1000000 + x * 10000 + y * 100 + z + 5);
}

// A sum by halving over shared memory: each step needs the barrier before it.
template <int THREADS>
__global__ void block_sum(const int* in, int* out) {
  __shared__ int s[THREADS];
  const int t = threadIdx.x;
  s[t] = in[blockIdx.x * THREADS + t];
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}

TEST(SimBarrier, OrdersAccessesOfManyWarps) {
  std::vector<int> in(4 * 1024), out(4, -1);
  for (size_t i = 0; i < in.size(); ++i) in[i] = int(i * 7 % 13);
  gemm::launch(block_sum<1024>, 4, dim3(1024), {}, nullptr, in.data(), out.data());
  for (int b = 0; b < 4; ++b) {
    int sum = 0;
    for (int t = 0; t < 1024; ++t) sum += in[b * 1024 + t];
    EXPECT_EQ(out[b], sum);
  }
  EXPECT_EQ(sim::last_launch().barriers, 11);
  EXPECT_EQ(sim::last_launch().blocks, 4);
  EXPECT_EQ(sim::last_launch().threads_per_block, 1024);
}

// Without a barrier the order is fixed: lanes in order, warps in order.
__global__ void log_order(int* log, int* length) {
  log[atomicAdd(length, 1)] = threadIdx.x;
  __syncwarp();
  log[atomicAdd(length, 1)] = threadIdx.x;
  __syncthreads();
  log[atomicAdd(length, 1)] = threadIdx.x;
}

TEST(SimScheduler, RunsThreadsInAFixedOrder) {
  std::vector<int> log(3 * 64), expected;
  int length = 0;
  gemm::launch(log_order, 1, dim3(64), {}, nullptr, log.data(), &length);
  for (int warp = 0; warp < 2; ++warp)
    for (int twice = 0; twice < 2; ++twice)
      for (int lane = 0; lane < 32; ++lane) expected.push_back(warp * 32 + lane);
  for (int t = 0; t < 64; ++t) expected.push_back(t);
  EXPECT_EQ(log, expected);
}

TEST(SimLaunch, ResultsDoNotDependOnTheNumberOfOsThreads) {
  std::vector<int> in(300 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = int(i * i % 1009);
  std::vector<std::vector<int>> results;
  for (int n : {1, 2, 5}) {
    OsThreads os_threads(n);
    std::vector<int> out(300, -1);
    gemm::launch(block_sum<64>, 300, dim3(64), {}, nullptr, in.data(), out.data());
    EXPECT_EQ(sim::last_launch().barriers, 7);
    results.push_back(out);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_THROW(sim::set_threads(-1), sim::Error);
}

// ---------------------------------------------------------------------------------- shared memory

template <class T>
__global__ void read_unwritten(T* out, uint8_t* dynamic_out) {
  __shared__ T s[64];
  out[threadIdx.x] = s[threadIdx.x];
  dynamic_out[threadIdx.x] = static_cast<const uint8_t*>(sim::dynamic_shared())[threadIdx.x];
  __syncthreads();
  s[threadIdx.x] = T(1.0f);  // must not reach the next block
  static_cast<uint8_t*>(sim::dynamic_shared())[threadIdx.x] = 1;
}

template <class T>
void expect_poison() {
  OsThreads os_threads(1);  // so that the blocks follow each other in the same memory
  for (int blocks = 0; blocks < 3; ++blocks) {
    std::vector<T> out(64, T(0.0f));
    std::vector<uint8_t> dynamic_out(64, 0);
    gemm::launch(read_unwritten<T>, 2, dim3(64), {.smem = 64}, nullptr, out.data(),
                 dynamic_out.data());
    for (int i = 0; i < 64; ++i) {
      EXPECT_TRUE(std::isnan(float(out[i])));
      EXPECT_EQ(dynamic_out[i], 0xff);
    }
  }
}

TEST(SimSharedMemory, IsPoisonedBeforeEveryBlock) {
  expect_poison<float>();
  expect_poison<half>();
}

// The poison must spare what the worker threads need, the host's thread_locals, and initialised
// ones.
thread_local int host_variable = 0;
thread_local volatile int initialised = 42;
__global__ void read_initialised(int* out) { *out = initialised; }

TEST(SimSharedMemory, PoisonSparesTheHost) {
  host_variable = 7;
  int out = 0;
  gemm::launch(read_initialised, 1, dim3(1), {}, nullptr, &out);
  EXPECT_EQ(out, 42);
  EXPECT_EQ(host_variable, 7);
}

__global__ void dynamic_alignment(uintptr_t* out) {
  *out = reinterpret_cast<uintptr_t>(sim::dynamic_shared());
}

TEST(SimSharedMemory, DynamicPartIsAlignedTo1024) {
  uintptr_t address = 1;
  gemm::launch(dynamic_alignment, 1, dim3(1), {.smem = 227 * 1024}, nullptr, &address);
  EXPECT_EQ(address % 1024, 0u);
}

// ------------------------------------------------------------------------------- shuffles, votes

__global__ void shuffles(int* out, double* wide) {
  const int t = threadIdx.x;
  out[t] = __shfl_sync(0xffffffff, t, 3);
  out[32 + t] = __shfl_sync(0xffffffff, t, 9, 8);  // lane 9 mod 8 of each group of 8
  out[64 + t] = __shfl_up_sync(0xffffffff, t, 2, 16);
  out[96 + t] = __shfl_down_sync(0xffffffff, t, 5);
  out[128 + t] = __shfl_xor_sync(0xffffffff, t, 17);
  out[160 + t] =
      __shfl_xor_sync(0xffffffff, t, 8, 8);  // PTX: earlier groups can be read, later not
  wide[t] = __shfl_sync(0xffffffff, t * 1e100, t + 1);
  const unsigned half_warp = t < 16 ? 0x0000ffffu : 0xffff0000u;  // two at once in one warp
  out[192 + t] = __shfl_xor_sync(half_warp, t, 1);
}

TEST(SimCollectives, Shuffle) {
  std::vector<int> out(224, -1);
  std::vector<double> wide(32);
  gemm::launch(shuffles, 1, dim3(32), {}, nullptr, out.data(), wide.data());
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(out[t], 3);
    EXPECT_EQ(out[32 + t], t / 8 * 8 + 1);
    EXPECT_EQ(out[64 + t], t % 16 < 2 ? t : t - 2);
    EXPECT_EQ(out[96 + t], t + 5 < 32 ? t + 5 : t);
    EXPECT_EQ(out[128 + t], t ^ 17);
    EXPECT_EQ(out[160 + t], (t ^ 8) < t ? t ^ 8 : t);
    EXPECT_EQ(wide[t], (t + 1) % 32 * 1e100);
    EXPECT_EQ(out[192 + t], t ^ 1);
  }
  EXPECT_EQ(sim::last_launch().collectives, 9);
}

__global__ void votes(unsigned* ballot, int* any, int* all) {
  const int t = threadIdx.x;
  ballot[t] = __ballot_sync(0xffffffff, t % 3 == 0 ? 4 : 0);
  any[t] = __any_sync(0xffffffff, t == 31) + 2 * __any_sync(0xffffffff, 0);
  all[t] = __all_sync(0xffffffff, 1) + 2 * __all_sync(0xffffffff, t != 4);
}

TEST(SimCollectives, Vote) {
  std::vector<unsigned> ballot(32);
  std::vector<int> any(32), all(32);
  gemm::launch(votes, 1, dim3(32), {}, nullptr, ballot.data(), any.data(), all.data());
  unsigned expected = 0;
  for (int t = 0; t < 32; t += 3) expected |= 1u << t;
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(ballot[t], expected);
    EXPECT_EQ(any[t], 1);
    EXPECT_EQ(all[t], 1);
  }
}

__global__ void partial_warp(int* out) {
  out[threadIdx.x] = __shfl_xor_sync(0xff, int(threadIdx.x), 1);
}

TEST(SimCollectives, SmallWarpWithItsOwnMask) {
  std::vector<int> out(8);
  gemm::launch(partial_warp, 1, dim3(8), {}, nullptr, out.data());
  for (int t = 0; t < 8; ++t) EXPECT_EQ(out[t], t ^ 1);
}

// --------------------------------------------------------------------------------------- cp.async

// s[i] before and after each wait; three groups of one copy, the last one empty of data.
__global__ void copy_groups(const float* g, float* out) {
  alignas(16) __shared__ float s[3][4];
  for (int i = 0; i < 4; ++i) s[0][i] = s[1][i] = s[2][i] = -1;
  cp_async_16(s[0], g, 16);
  cp_async_commit();
  cp_async_16(s[1], g + 4, 8);  // the rest is zero
  cp_async_commit();
  cp_async_16(s[2], nullptr, 0);  // reads nothing
  cp_async_commit();
  const auto log = [&](int step) { memcpy(out + step * 12, s, sizeof s); };
  log(0);
  cp_async_wait<3>();
  log(1);
  cp_async_wait<2>();
  log(2);
  cp_async_wait<1>();
  log(3);
  cp_async_wait<0>();
  log(4);
  cp_async_16(s[0], g + 8, 16);  // never committed
  cp_async_wait<0>();
  __syncthreads();
  log(5);
}

TEST(SimAsyncCopy, LandsGroupByGroupAtTheWait) {
  std::vector<float> g(16), out(6 * 12, -2);
  for (int i = 0; i < 16; ++i) g[i] = float(i + 1);
  alignas(16) float aligned[16];
  std::memcpy(aligned, g.data(), sizeof aligned);
  gemm::launch(copy_groups, 1, dim3(1), {}, nullptr, static_cast<const float*>(aligned),
               out.data());
  const float first[] = {1, 2, 3, 4}, second[] = {5, 6, 0, 0}, third[] = {0, 0, 0, 0};
  const float* landed[] = {first, second, third};
  const int groups[] = {0, 0, 1, 2, 3, 3};
  for (int step = 0; step < 6; ++step)
    for (int s = 0; s < 3; ++s)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(out[step * 12 + s * 4 + i], s < groups[step] ? landed[s][i] : -1)
            << "step " << step << ", group " << s;
  EXPECT_EQ(sim::last_launch().copies, 4);
  EXPECT_EQ(sim::last_launch().copy_bytes, 16 + 8 + 0 + 16);
}

// A pipeline's groups are counted over its whole life, not only from the last wait on.
__global__ void copy_pipeline(const int* g, int* out, int tiles) {
  alignas(16) __shared__ int s[3][4];
  for (int i = 0; i < 2; ++i) cp_async_16(s[i], g + i * 4, 16), cp_async_commit();
  for (int i = 0; i < tiles; ++i) {
    cp_async_wait<1>();
    for (int e = 0; e < 4; ++e) out[i * 4 + e] = s[i % 3][e];
    if (i + 2 < tiles) cp_async_16(s[(i + 2) % 3], g + (i + 2) * 4, 16);
    cp_async_commit();
  }
}

TEST(SimAsyncCopy, Pipeline) {
  alignas(16) int g[40];
  for (int i = 0; i < 40; ++i) g[i] = i * i;
  std::vector<int> out(40, -1);
  gemm::launch(copy_pipeline, 1, dim3(1), {}, nullptr, static_cast<const int*>(g), out.data(), 10);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(out[i], g[i]);
}

// A block's open copies must not land in the next block.
__global__ void abandon_copy(const int* g, int* out) {
  alignas(16) __shared__ int s[4];
  cp_async_wait<0>();
  out[blockIdx.x] = s[0];
  cp_async_16(s, g, 16);
  cp_async_commit();
}

TEST(SimAsyncCopy, EndsWithItsBlock) {
  OsThreads os_threads(1);
  alignas(16) int g[4] = {5, 5, 5, 5};
  int out[2] = {};
  gemm::launch(abandon_copy, 2, dim3(1), {}, nullptr, static_cast<const int*>(g),
               static_cast<int*>(out));
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[1], -1);
}

__global__ void bad_copy(const char* g, int what) {
  alignas(16) __shared__ char s[64];
  alignas(16) char local[16];
  if (what == 0) cp_async_16(s + 8, g, 16);
  if (what == 1) cp_async_16(s, g + 4, 16);
  if (what == 2) cp_async_16(s, g, 17);
  if (what == 3) cp_async_16(local, g, 16);
}

TEST(SimAsyncCopy, RejectsWhatTheGpuWould) {
  alignas(16) static const char g[64] = {};
  const char* p = g;
  EXPECT_THAT(error_of(bad_copy, 1, 1, p, 0), HasSubstr("thread 0 (warp 0, lane 0): cp.async"));
  EXPECT_THAT(error_of(bad_copy, 1, 1, p, 0), HasSubstr("is not 16-byte aligned"));
  EXPECT_THAT(error_of(bad_copy, 1, 1, p, 1), HasSubstr("global address"));
  EXPECT_THAT(error_of(bad_copy, 1, 1, p, 2), HasSubstr("reads 17 bytes"));
  EXPECT_THAT(error_of(bad_copy, 1, 1, p, 3), HasSubstr("not shared memory"));
}

// ------------------------------------------------------------------------- ldmatrix, mma, rounding

template <bool TRANSPOSED>
__global__ void load_matrices(uint32_t* out) {
  alignas(16) __shared__ uint16_t s[32][8 + 8];  // row r, column c holds 100 * r + c
  const int lane = threadIdx.x;
  for (int c = 0; c < 8; ++c) s[lane][c] = static_cast<uint16_t>(100 * lane + c);
  __syncthreads();
  uint32_t r[4];
  if constexpr (TRANSPOSED)
    ldmatrix_x4_trans(r, s[lane]);
  else
    ldmatrix_x4(r, s[lane]);
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = r[i];
}

TEST(SimCollectives, Ldmatrix) {
  std::vector<uint32_t> out(128), trans(128);
  gemm::launch(load_matrices<false>, 1, dim3(32), {}, nullptr, out.data());
  gemm::launch(load_matrices<true>, 1, dim3(32), {}, nullptr, trans.data());
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const uint32_t row = 8 * i + lane / 4, col = lane % 4 * 2;
      EXPECT_EQ(out[lane * 4 + i], (100 * row + col) | (100 * row + col + 1) << 16);
      const uint32_t trow = 8 * i + lane % 4 * 2, tcol = lane / 4;
      EXPECT_EQ(trans[lane * 4 + i], (100 * trow + tcol) | (100 * (trow + 1) + tcol) << 16);
    }
}

template <int COUNT, bool TRANSPOSED>
__global__ void load_fewer_matrices(uint32_t* out) {
  alignas(16) __shared__ uint16_t s[16][8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 128; i += 32) s[i / 8][i % 8] = static_cast<uint16_t>(i);
  __syncthreads();
  // The lanes past 8 * COUNT give no address.
  sim::ldmatrix(out + lane * COUNT, COUNT, lane < 8 * COUNT ? s[lane] : nullptr, TRANSPOSED);
}

TEST(SimCollectives, LdmatrixOfOneAndTwo) {
  std::vector<uint32_t> one(32), two(64);
  gemm::launch(load_fewer_matrices<1, false>, 1, dim3(32), {}, nullptr, one.data());
  gemm::launch(load_fewer_matrices<2, true>, 1, dim3(32), {}, nullptr, two.data());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(one[lane], (2 * lane) | (2 * lane + 1) << 16);
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t element = (8 * i + lane % 4 * 2) * 8 + lane / 4;
      EXPECT_EQ(two[lane * 2 + i], element | (element + 8) << 16);
    }
  }
}

__global__ void bad_ldmatrix(int what) {
  alignas(16) __shared__ uint16_t s[32][8];
  alignas(16) uint16_t local[8] = {};
  const int lane = threadIdx.x;
  const uint16_t* row = lane != 5 ? s[lane] : what == 0 ? s[lane] + 1 : local;
  uint32_t r[4];
  ldmatrix_x4(r, row);
}

TEST(SimCollectives, LdmatrixChecksItsAddresses) {
  EXPECT_THAT(error_of(bad_ldmatrix, 1, 32, 0), HasSubstr("lane 5): ldmatrix.x4"));
  EXPECT_THAT(error_of(bad_ldmatrix, 1, 32, 0), HasSubstr("not 16-byte aligned"));
  EXPECT_THAT(error_of(bad_ldmatrix, 1, 32, 1), HasSubstr("not in shared memory"));
}

// D = A * B + D with the fragments gathered and scattered as PTX ISA lays them out.
template <class T>
__global__ void one_mma_16(const T* A, const T* B, float* D) {  // 16x16, 16x8, 16x8
  const int lane = threadIdx.x, group = lane >> 2, quad = lane & 3;
  T a[8], b[4];
  float d[4];
  for (int i = 0; i < 8; ++i) {
    const int row = i % 4 < 2 ? group : group + 8, col = quad * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a[i] = A[row * 16 + col];
  }
  for (int i = 0; i < 4; ++i) b[i] = B[(quad * 2 + (i & 1) + (i >= 2 ? 8 : 0)) * 8 + group];
  for (int i = 0; i < 4; ++i) d[i] = D[(i < 2 ? group : group + 8) * 8 + quad * 2 + (i & 1)];
  uint32_t ra[4], rb[2];
  memcpy(ra, a, sizeof ra);
  memcpy(rb, b, sizeof rb);
  if constexpr (std::is_same_v<T, half>)
    mma_m16n8k16_f16(d, ra, rb);
  else
    mma_m16n8k16_bf16(d, ra, rb);
  for (int i = 0; i < 4; ++i) D[(i < 2 ? group : group + 8) * 8 + quad * 2 + (i & 1)] = d[i];
}

__global__ void one_mma_tf32(const float* A, const float* B, float* D) {  // 16x8, 8x8, 16x8
  const int lane = threadIdx.x, group = lane >> 2, quad = lane & 3;
  uint32_t a[4], b[2];
  float d[4];
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2 == 0 ? group : group + 8, col = i < 2 ? quad : quad + 4;
    memcpy(&a[i], &A[row * 8 + col], 4);
  }
  for (int i = 0; i < 2; ++i) memcpy(&b[i], &B[(quad + 4 * i) * 8 + group], 4);
  for (int i = 0; i < 4; ++i) d[i] = D[(i < 2 ? group : group + 8) * 8 + quad * 2 + (i & 1)];
  mma_m16n8k8_tf32(d, a, b);
  for (int i = 0; i < 4; ++i) D[(i < 2 ? group : group + 8) * 8 + quad * 2 + (i & 1)] = d[i];
}

// `value` makes an element of A and B. Products must be exact in float.
template <int K, class T, class Value>
void expect_mma(void (*kernel)(const T*, const T*, float*), Value value) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<T> A(16 * K), B(K * 8);
    std::vector<float> D(16 * 8), expected(16 * 8);
    for (T& x : A) x = value(random);
    for (T& x : B) x = value(random);
    for (float& x : D) x = float(value(random));
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) {
        float sum = D[m * 8 + n];
        for (int k = 0; k < K; ++k) sum += float(A[m * K + k]) * float(B[k * 8 + n]);
        expected[m * 8 + n] = sum;
      }
    gemm::launch(kernel, 1, dim3(32), {}, nullptr, static_cast<const T*>(A.data()),
                 static_cast<const T*>(B.data()), D.data());
    EXPECT_EQ(D, expected);
  }
}

TEST(SimCollectives, MmaF16) {
  expect_mma<16, half>(one_mma_16<half>, [](auto& r) {
    return half(float(std::uniform_int_distribution(-8, 8)(r)));
  });
  expect_mma<16, half>(one_mma_16<half>, [](auto& r) {
    return half(std::uniform_real_distribution<float>(-1, 1)(r));
  });
  expect_mma<16, half>(one_mma_16<half>, [](auto& r) {  // subnormals are not flushed
    return half(std::uniform_real_distribution<float>(-0x1p-14f, 0x1p-14f)(r));
  });
}

TEST(SimCollectives, MmaBf16) {
  expect_mma<16, bf16>(one_mma_16<bf16>, [](auto& r) {
    return bf16(float(std::uniform_int_distribution(-8, 8)(r)));
  });
  expect_mma<16, bf16>(one_mma_16<bf16>, [](auto& r) {
    return bf16(std::uniform_real_distribution<float>(-1, 1)(r));
  });
  expect_mma<16, bf16>(one_mma_16<bf16>, [](auto& r) {  // far beyond what a half holds
    return bf16(std::uniform_real_distribution<float>(-0x1p50f, 0x1p50f)(r));
  });
}

TEST(SimCollectives, MmaTf32) {
  expect_mma<8, float>(one_mma_tf32,
                       [](auto& r) { return float(std::uniform_int_distribution(-8, 8)(r)); });
  expect_mma<8, float>(one_mma_tf32, [](auto& r) {
    return std::bit_cast<float>(cvt_rna_tf32(std::uniform_real_distribution<float>(-1, 1)(r)));
  });
}

TEST(SimCollectives, MmaTf32IgnoresTheBitsThatTf32Lacks) {
  std::vector<float> A(16 * 8, std::bit_cast<float>(0x3f801fffu)), B(8 * 8, 1), D(16 * 8, 0);
  gemm::launch(one_mma_tf32, 1, dim3(32), {}, nullptr, static_cast<const float*>(A.data()),
               static_cast<const float*>(B.data()), D.data());
  for (float d : D) EXPECT_EQ(d, 8);
}

TEST(SimRounding, Tf32RoundsTiesAwayFromZero) {
  const auto rounded = [](uint32_t bits) { return cvt_rna_tf32(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3f800fff), 0x3f800000u);
  EXPECT_EQ(rounded(0x3f801000), 0x3f802000u);  // a tie
  EXPECT_EQ(rounded(0xbf803000), 0xbf804000u);  // a tie
  EXPECT_EQ(rounded(0x3fffffff), 0x40000000u);  // carries into the exponent
  EXPECT_EQ(rounded(0x7f800000), 0x7f800000u);  // infinity
  EXPECT_EQ(rounded(0xff800001), 0x7fffffffu);  // NaN
}

// ------------------------------------------------------------------------------------------- half

// IEEE binary16 by its definition.
float value_of(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const float sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::numeric_limits<float>::quiet_NaN()
                    : sign * std::numeric_limits<float>::infinity();
  return sign * (exponent ? std::ldexp(float(1024 + mantissa), exponent - 25)
                          : std::ldexp(float(mantissa), -24));
}

half from_bits(uint16_t bits) {
  half h;
  h.bits = bits;
  return h;
}

TEST(SimHalf, EveryHalfConvertsExactlyAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    for (float f : {float(from_bits(h)), sim::software::half_to_float(h)}) {
      if (std::isnan(value_of(h))) {
        EXPECT_TRUE(std::isnan(f));
        EXPECT_TRUE(std::isnan(float(half(f))));
        EXPECT_TRUE(std::isnan(value_of(sim::software::float_to_half(f))));
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(f), std::bit_cast<uint32_t>(value_of(h))) << bits;
        ASSERT_EQ(half(f).bits, h);
        ASSERT_EQ(sim::software::float_to_half(f), h);
      }
    }
  }
}

// Between any two neighbours: the tie goes to the even one, the floats beside it to the nearer.
TEST(SimHalf, FloatsRoundToNearestEven) {
  for (uint16_t h = 0; h < 0x7c00; ++h) {
    const uint16_t next = static_cast<uint16_t>(h + 1);
    const float upper = next == 0x7c00 ? 65536.0f : value_of(next);  // overflow rounds as if to it
    const float tie = (value_of(h) + upper) / 2;                     // exact
    const float below = std::nextafter(tie, 0.0f), above = std::nextafter(tie, 1e30f);
    const uint16_t even = h % 2 == 0 ? h : next;
    for (int sign = 0; sign < 2; ++sign) {
      const float s = sign ? -1 : 1;
      const int bit = sign << 15;
      ASSERT_EQ(half(s * below).bits, h | bit) << h;
      ASSERT_EQ(half(s * tie).bits, even | bit) << h;
      ASSERT_EQ(half(s * above).bits, next | bit) << h;
      ASSERT_EQ(sim::software::float_to_half(s * below), h | bit) << h;
      ASSERT_EQ(sim::software::float_to_half(s * tie), even | bit) << h;
      ASSERT_EQ(sim::software::float_to_half(s * above), next | bit) << h;
    }
  }
  for (float huge : {65520.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(half(huge).bits, 0x7c00);
    EXPECT_EQ(sim::software::float_to_half(-huge), 0xfc00);
  }
  EXPECT_EQ(half(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(SimHalf, SoftwareAndHardwareAgreeOnRandomFloats) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000000; ++i) {
    const float f = std::bit_cast<float>(uint32_t(random()));
    ASSERT_EQ(half(f).bits, sim::software::float_to_half(f)) << std::bit_cast<uint32_t>(f);
  }
}

// ----------------------------------------------------------------------------------- vector types

__global__ void misaligned_load(const float* p, float* out) {
  const float4 v = *reinterpret_cast<const float4*>(p + threadIdx.x);
  *out = v.x + v.y + v.z + v.w;
}

__global__ void misaligned_store(float* p) {
  *reinterpret_cast<float4*>(p + threadIdx.x) = make_float4(1, 2, 3, 4);
}

TEST(SimVectorTypes, MisalignedAccessIsAnError) {
  alignas(16) float data[8] = {1, 2, 3, 4};
  float out = 0;
  const float* p = data;
  EXPECT_EQ(error_of(misaligned_load, 1, 1, p, &out), "");
  EXPECT_EQ(out, 10);
  EXPECT_THAT(error_of(misaligned_load, 1, 2, p, &out),
              HasSubstr("thread 1 (warp 0, lane 1): 16-byte access at 0x"));
  EXPECT_THAT(error_of(misaligned_store, 1, 2, data),
              HasSubstr("thread 1 (warp 0, lane 1): 16-by"));
}

// ------------------------------------------------------------------------------------------ errors

constexpr int EXIT_LINE = __LINE__ + 4;
__global__ void exit_before_barrier(int leavers) {
  __shared__ int s;
  if (int(threadIdx.x) < leavers) return;
  __syncthreads();
  s = 1;
  static_cast<void>(s);
}

TEST(SimErrors, BarrierThatSomeThreadsHaveExited) {
  EXPECT_EQ(error_of(exit_before_barrier, 1, 96, 0), "");
  EXPECT_EQ(error_of(exit_before_barrier, 1, 96, 40),
            "block 0: divergent __syncthreads: thread 40 (warp 1, lane 8) and 55 more wait at " +
                line(EXIT_LINE) + ", but thread 0 (warp 0, lane 0) and 39 more have exited");
  EXPECT_THAT(error_of(exit_before_barrier, 1, dim3(8, 4, 3), 1),
              HasSubstr("block 0: divergent __syncthreads: thread 1 = (1, 0, 0) (warp 0, lane 1)"));
  EXPECT_THAT(error_of(exit_before_barrier, 1, 2, 1),
              HasSubstr("thread 1 (warp 0, lane 1) waits at " + line(EXIT_LINE) +
                        ", but thread 0 (warp 0, lane 0) has exited"));
}

constexpr int BRANCH_LINE = __LINE__ + 3;
__global__ void barriers_in_branches(int split) {
  if (int(threadIdx.x) < split)
    __syncthreads();
  else
    __syncthreads();
}

TEST(SimErrors, BarriersAtDifferentLines) {
  EXPECT_EQ(error_of(barriers_in_branches, 1, 64, 64), "");
  EXPECT_EQ(error_of(barriers_in_branches, 1, 64, 63),
            "block 0: divergent __syncthreads: thread 0 (warp 0, lane 0) and 62 more wait at " +
                line(BRANCH_LINE) + ", but thread 63 (warp 1, lane 31) waits at " +
                line(BRANCH_LINE + 2));
}

constexpr int SHUFFLE_LINE = __LINE__ + 4;
__global__ void shuffle_without(int leaver, int waiter, int* out) {
  const int t = threadIdx.x;
  if (t == leaver) return;
  if (t != waiter) out[t] = __shfl_sync(0xffffffff, t, 0);
  __syncthreads();
}

TEST(SimErrors, DeadlockOfACollective) {
  std::vector<int> out(64);
  EXPECT_EQ(error_of(shuffle_without, 1, 64, -1, -1, out.data()), "");
  EXPECT_EQ(error_of(shuffle_without, 1, 64, 37, -1, out.data()),
            "block 0: deadlock: thread 32 (warp 1, lane 0) waits at __shfl_sync (" +
                line(SHUFFLE_LINE) + ") for lane 5, which has exited");
  EXPECT_EQ(error_of(shuffle_without, 1, 64, -1, 3, out.data()),
            "block 0: deadlock: thread 0 (warp 0, lane 0) waits at __shfl_sync (" +
                line(SHUFFLE_LINE) + ") for lane 3, which waits at __syncthreads (" +
                line(SHUFFLE_LINE + 1) + ")");
}

constexpr int DISAGREE_LINE = __LINE__ + 5;
__global__ void disagree(int what, int* out) {
  const int t = threadIdx.x;
  if (what == 0) {
    if (t < 16)
      out[t] = __shfl_sync(0xffffffff, t, 0);
    else
      out[t] = __ballot_sync(0xffffffff, t);
  }
  if (what == 1) out[t] = __shfl_sync(t < 7 ? 0xffffffff : 0xfffffffe, t, 1);
  if (what == 2) {
    if (t < 9)
      __syncwarp();
    else
      __syncwarp();
  }
  if (what == 3) out[t] = __shfl_sync(0xfffffffe, t, 1);
  if (what == 4) out[t] = __shfl_sync(t < 16 ? 0xffff : 0xffff0000, t, 20);
  if (what == 5) out[t] = __shfl_sync(0xffffffff, t, 0, 7);
  if (what == 6) {
    uint32_t r[4];
    sim::ldmatrix(r, 4, nullptr, /*transposed=*/t >= 16);
  }
}

TEST(SimErrors, LanesThatDisagree) {
  std::vector<int> out(32);
  const auto error = [&](int what) { return error_of(disagree, 1, 32, what, out.data()); };
  EXPECT_EQ(
      error(0),
      "block 0: the lanes of a warp disagree: thread 16 (warp 0, lane 16) calls warp vote with "
      "mask 0xffffffff (" +
          line(DISAGREE_LINE + 2) + "), but thread 0 (warp 0, lane 0) waits at __shfl_sync " +
          "with mask 0xffffffff (" + line(DISAGREE_LINE) + ")");
  EXPECT_THAT(error(1),
              HasSubstr("thread 7 (warp 0, lane 7) calls __shfl_sync with mask 0xfffffffe"));
  EXPECT_THAT(error(2), HasSubstr(line(DISAGREE_LINE + 9)));
  EXPECT_THAT(error(3), HasSubstr("does not name its own lane"));
  EXPECT_THAT(error(4), HasSubstr("lane 0): __shfl_sync"));
  EXPECT_THAT(error(4), HasSubstr("reads lane 20, which its mask 0xffff does not name"));
  EXPECT_THAT(error(5), HasSubstr("width 7"));
  EXPECT_THAT(error(6), HasSubstr("lane 16) calls ldmatrix.x4.trans"));
}

TEST(SimErrors, MmaNeedsAFullWarp) {
  const std::vector<half> a(16 * 16), b(16 * 8);
  std::vector<float> d(16 * 8);
  EXPECT_THAT(error_of(one_mma_16<half>, 1, 16, a.data(), b.data(), d.data()),
              HasSubstr("the warp has only 16 threads"));
}

__global__ void nothing() {}

TEST(SimErrors, LaunchesThatAGpuRefuses) {
  EXPECT_THAT(error_of(nothing, 1, 1025), HasSubstr("1025 x 1 x 1 threads"));
  EXPECT_THAT(error_of(nothing, 1, dim3(32, 33)), HasSubstr("32 x 33 x 1 threads"));
  EXPECT_THAT(error_of(nothing, 1, dim3(0)), HasSubstr("0 x 1 x 1 threads"));
  EXPECT_THAT(error_of(nothing, int64_t{1} << 31, 1), HasSubstr("2147483648 blocks"));
  EXPECT_THAT(error_of(nothing, -1, 1), HasSubstr("-1 blocks"));
  EXPECT_THROW(gemm::launch(nothing, 1, dim3(1), {.smem = 227 * 1024 + 1}, nullptr), sim::Error);
  EXPECT_THROW(gemm::launch(nothing, 3, dim3(1), {.cluster = 2}, nullptr), sim::Error);
  EXPECT_NO_THROW(
      gemm::launch(nothing, 4, dim3(1024), {.smem = 227 * 1024, .cluster = 2}, nullptr));
  EXPECT_NO_THROW(gemm::launch(nothing, 0, dim3(1), {}, nullptr));
}

// What ptxas refuses to compile, and what cudaLaunchKernel to launch.
template <int FLOATS>
__global__ void uses_static_shared(float* out) {
  __shared__ float s[FLOATS];
  if (threadIdx.x == 0) s[FLOATS / 2] = 1;
  __syncthreads();
  *out = s[FLOATS / 2];
}

TEST(SimErrors, MoreSharedMemoryThanABlockHas) {
  constexpr int MOST = 48 * 1024 / 4;  // floats
  float out = 0;
  EXPECT_EQ(error_of(uses_static_shared<MOST>, 1, 32, &out), "");
  EXPECT_EQ(error_of(uses_static_shared<MOST + 1>, 1, 32, &out),
            "block 0: 49156 bytes of __shared__ variables (s 49156); allowed: up to 49152, more as "
            "dynamic_shared()");
  const auto with_dynamic = [&](size_t smem) -> std::string {
    try {
      gemm::launch(uses_static_shared<MOST>, 1, dim3(32), {.smem = smem}, nullptr, &out);
    } catch (const sim::Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(with_dynamic((227 - 48) * 1024), "");
  EXPECT_EQ(with_dynamic((227 - 48) * 1024 + 1),
            "block 0: 49152 bytes of __shared__ variables (s 49152) and 183297 of dynamic shared "
            "memory; allowed: up to 232448 in all");
}

struct CountsItself {
  explicit CountsItself(int* n) : n(n) { atomicAdd(n, 1); }
  ~CountsItself() { atomicAdd(n, -1); }
  int* n;
};

__global__ void throws(int block, int thread, int* alive) {
  const CountsItself counted(alive);
  if (int(blockIdx.x) >= block) {  // neither the first nor the last to fail, given more OS threads
    const int delay = (blockIdx.x - block + 1) % 3 * 300;
    for (int i = 0; i < delay; ++i) __syncthreads();
  }
  if (int(blockIdx.x) >= block && int(threadIdx.x) == thread) throw std::runtime_error("oops");
  __syncthreads();
}

TEST(SimErrors, AnExceptionInAKernelUnwindsTheBlock) {
  int alive = 0;
  EXPECT_EQ(error_of(throws, 3, 64, 1, 40, &alive),
            "block 1: thread 40 (warp 1, lane 8): exception in the kernel: oops");
  EXPECT_EQ(alive, 0);
}

TEST(SimErrors, TheLowestBlockIsReportedAndTheNextLaunchWorks) {
  std::vector<int> in(64, 1), out(1);
  for (int n : {1, 2, 5}) {
    OsThreads os_threads(n);
    for (int round = 0; round < 20; ++round) {
      int alive = 0;
      EXPECT_THAT(error_of(throws, 200, 64, 77, round, &alive), HasSubstr("block 77: thread "));
      EXPECT_EQ(alive, 0);
      gemm::launch(block_sum<64>, 1, dim3(64), {}, nullptr, in.data(), out.data());
      EXPECT_EQ(out[0], 64);
    }
  }
}

// A chain: each block adds one to what the block before it has left, but for `silent`, which tells
// nobody.
__global__ void chain(int* sums, uint64_t* flags, unsigned silent) {
  if (blockIdx.x > 0) flag_wait(&flags[blockIdx.x - 1], 7);
  sums[blockIdx.x] = blockIdx.x > 0 ? sums[blockIdx.x - 1] + 1 : 1;
  if (blockIdx.x != silent) flag_set(&flags[blockIdx.x], 7);
}
constexpr int CHAIN_WAITS = __LINE__ - 4;

TEST(SimFlags, HandOverFromBlockToBlock) {
  for (const int n : {1, 2, 5}) {
    OsThreads os_threads(n);
    std::vector<int> sums(200);
    std::vector<uint64_t> flags(200);
    gemm::launch(chain, 200, dim3(1), {}, nullptr, sums.data(), flags.data(), ~0u);
    EXPECT_EQ(sums[199], 200);
  }
}

TEST(SimFlags, AFlagThatNobodySetsIsAnError) {
  for (const int n : {1, 2, 5}) {
    OsThreads os_threads(n);
    std::vector<int> sums(200);
    std::vector<uint64_t> flags(200);
    EXPECT_EQ(error_of(chain, 200, 1, sums.data(), flags.data(), 50u),
              "block 51: thread 0 (warp 0, lane 0): flag_wait (" + line(CHAIN_WAITS) +
                  "): no block before this one has set the flag");
  }
}

TEST(SimErrors, DeviceFunctionsOutsideAKernel) {
  EXPECT_THROW(__syncthreads(), sim::Error);
  EXPECT_THROW(__syncwarp(), sim::Error);
}

__global__ void launch_inside() { gemm::launch(nothing, 1, dim3(1), {}, nullptr); }

TEST(SimErrors, LaunchInsideAKernel) {
  EXPECT_THAT(error_of(launch_inside, 1, 1), HasSubstr("launch called inside a kernel"));
}

}  // namespace
