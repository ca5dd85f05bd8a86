// The simulator's cp.async.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/ptx/cp_async.cuh"
#include "rung.h"
#include "sim/simulator.h"
#include "sim_launch.h"

namespace {

using namespace gemm;
using ::testing::HasSubstr;

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

}  // namespace
