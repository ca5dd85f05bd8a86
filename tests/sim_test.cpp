// The simulator's launches: threads, barriers, shared memory and mistakes. By the path that rungs take,
// gemm::launch. Each test fails without the behaviour that it names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "device/ptx/grid.cuh"
#include "device/ptx/ldmatrix.cuh"
#include "rung.h"
#include "sim/simulator.h"
#include "sim_launch.h"

namespace {

using namespace gemm;
using ::testing::HasSubstr;

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

TEST(SimErrors, DeviceFunctionsOutsideAKernel) {
  EXPECT_THROW(__syncthreads(), sim::Error);
  EXPECT_THROW(__syncwarp(), sim::Error);
}

__global__ void launch_inside() { gemm::launch(nothing, 1, dim3(1), {}, nullptr); }

TEST(SimErrors, LaunchInsideAKernel) {
  EXPECT_THAT(error_of(launch_inside, 1, 1), HasSubstr("launch called inside a kernel"));
}

}  // namespace
