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

#ifdef FP8_OF_CUDA
uint8_t cuda_fp8_of(bool e5m2, float x);
float cuda_value_of(bool e5m2, uint8_t bits);
#endif

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

// -------------------------------------------------------------------------------------------- FP8

// OCP's e4m3 and e5m2 by their definition.
template <class T>
float fp8_value(uint8_t code) {
  constexpr bool E5M2 = std::is_same_v<T, f8e5m2>;
  constexpr int MANTISSA = E5M2 ? 2 : 3, BIAS = E5M2 ? 15 : 7;
  const int magnitude = code & 127, exponent = magnitude >> MANTISSA;
  const int mantissa = magnitude & ((1 << MANTISSA) - 1);
  const float sign = code & 128 ? -1 : 1;
  if (magnitude > (E5M2 ? 0x7c : 0x7e)) return std::numeric_limits<float>::quiet_NaN();
  if (E5M2 && magnitude == 0x7c) return sign * std::numeric_limits<float>::infinity();
  return sign * (exponent
                     ? std::ldexp(float((1 << MANTISSA) + mantissa), exponent - BIAS - MANTISSA)
                     : std::ldexp(float(mantissa), 1 - BIAS - MANTISSA));
}

template <class T>
class SimFp8 : public testing::Test {
 protected:
  static constexpr bool E5M2 = std::is_same_v<T, f8e5m2>;
  static constexpr uint8_t LARGEST = E5M2 ? 0x7b : 0x7e;

  // What the simulator makes of a float; the same as cuda_fp8.h, where that is here.
  static uint8_t code_of(float x) {
    const uint8_t bits = T(x).bits;
#ifdef FP8_OF_CUDA
    EXPECT_EQ(int{bits}, int{cuda_fp8_of(E5M2, x)}) << x;
#endif
    return bits;
  }
};
using Fp8Types = testing::Types<f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(SimFp8, Fp8Types);

TYPED_TEST(SimFp8, EveryCodeConvertsExactlyAndBack) {
  for (int i = 0; i < 256; ++i) {
    const auto code = static_cast<uint8_t>(i);
    const float value = fp8_value<TypeParam>(code), got{std::bit_cast<TypeParam>(code)};
#ifdef FP8_OF_CUDA
    const float of_cuda = cuda_value_of(TestFixture::E5M2, code);
    EXPECT_TRUE(std::isnan(value) ? std::isnan(of_cuda) : of_cuda == value) << i;
#endif
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(got)) << i;
      EXPECT_EQ(int{this->code_of(got)}, 0x7f);
    } else if (std::isinf(value)) {  // conversions saturate
      EXPECT_EQ(got, value);
      EXPECT_EQ(this->code_of(got), TestFixture::LARGEST | (code & 128)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(value)) << i;
      ASSERT_EQ(this->code_of(got), code);
    }
  }
}

TYPED_TEST(SimFp8, FloatsRoundToNearestEvenAndSaturate) {
  for (uint8_t code = 0; code < TestFixture::LARGEST; ++code) {
    const auto next = static_cast<uint8_t>(code + 1);
    const float tie = (fp8_value<TypeParam>(code) + fp8_value<TypeParam>(next)) / 2;  // exact
    const uint8_t even = code % 2 == 0 ? code : next;
    for (const int bit : {0, 128}) {
      const float s = bit ? -1 : 1;
      ASSERT_EQ(this->code_of(s * std::nextafter(tie, 0.0f)), code | bit);
      ASSERT_EQ(this->code_of(s * tie), even | bit);
      ASSERT_EQ(this->code_of(s * std::nextafter(tie, 1e30f)), next | bit);
    }
  }
  for (const float huge : {465.0f, 61440.0f, 1e30f, std::numeric_limits<float>::infinity()})
    if (huge > fp8_value<TypeParam>(TestFixture::LARGEST)) {
      EXPECT_EQ(this->code_of(huge), TestFixture::LARGEST);
      EXPECT_EQ(this->code_of(-huge), TestFixture::LARGEST | 128);
    }
  EXPECT_EQ(this->code_of(std::numeric_limits<float>::denorm_min()), 0);
  std::mt19937 random(3);
  for (int i = 0; i < 1000000; ++i) {  // the nearest code of all
    const float x = std::bit_cast<float>(uint32_t(random()) % 0x28000000 + 0x2e000000);
    const uint8_t code = this->code_of(x);
    const float error = std::abs(fp8_value<TypeParam>(code) - x);
    for (const int other : {code - 1, code + 1})
      if (other >= 0 && other <= TestFixture::LARGEST) {
        ASSERT_LE(error, std::abs(fp8_value<TypeParam>(static_cast<uint8_t>(other)) - x)) << x;
      }
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
              HasSubstr("thread 1 (warp 0, lane 1): 16-byte access to memory at 0x"));
  EXPECT_THAT(error_of(misaligned_store, 1, 2, data),
              HasSubstr("thread 1 (warp 0, lane 1): 16-by"));
}

}  // namespace
