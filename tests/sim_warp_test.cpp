// The simulator's instructions of a warp: shuffles, votes, ldmatrix and mma.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "device/ptx/ldmatrix.cuh"
#include "device/ptx/mma.cuh"
#include "rung.h"
#include "sim/simulator.h"
#include "sim_launch.h"

namespace {

using namespace gemm;
using ::testing::HasSubstr;

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

TEST(SimErrors, MmaNeedsAFullWarp) {
  const std::vector<half> a(16 * 16), b(16 * 8);
  std::vector<float> d(16 * 8);
  EXPECT_THAT(error_of(one_mma_16<half>, 1, 16, a.data(), b.data(), d.data()),
              HasSubstr("the warp has only 16 threads"));
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

}  // namespace
