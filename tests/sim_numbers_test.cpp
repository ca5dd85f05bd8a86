// The simulator's half and vector types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "rung.h"
#include "sim/simulator.h"
#include "sim_launch.h"

namespace {

using namespace gemm;
using ::testing::HasSubstr;

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

}  // namespace
