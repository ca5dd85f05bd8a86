// FP8 as OCP defines it: e4m3 (no infinity, largest 448) and e5m2 (infinities, largest 57344).
// Include through device/platform.h, which names the build.
#pragma once

#include <cstdint>

#include "sim/vector_types.h"

namespace gemm::sim {
inline namespace GEMM_BUILD {

// Storage only, as half. EXPONENT bits of exponent, 7 - EXPONENT of mantissa.
template <int EXPONENT>
struct Fp8 {
  static constexpr int MANTISSA = 7 - EXPONENT, BIAS = (1 << (EXPONENT - 1)) - 1;
  static constexpr bool HAS_INFINITY = EXPONENT == 5;
  static constexpr uint8_t LARGEST = HAS_INFINITY ? 0x7b : 0x7e;

  uint8_t bits;

  Fp8() = default;
  // Rounds to nearest, ties to even; saturates at the largest number, as cuda_fp8.h's conversions
  // do; a NaN becomes the canonical one, 0x7f.
  GEMM_SIM_INLINE explicit Fp8(float f) {
    const uint32_t b = __builtin_bit_cast(uint32_t, f), magnitude = b & 0x7fffffff;
    constexpr uint32_t LEAST_NORMAL = (128u - BIAS) << 23, DROPPED = 23 - MANTISSA;
    if (magnitude > 0x7f800000) {
      bits = 0x7f;
      return;
    }
    uint32_t code;
    if (magnitude >= LEAST_NORMAL) {
      const uint32_t half_less = (1u << (DROPPED - 1)) - 1;
      code =
          ((magnitude - ((127u - BIAS) << 23)) + half_less + (magnitude >> DROPPED & 1)) >> DROPPED;
    } else {  // subnormal: the addition aligns its last bit with the float's and rounds
      constexpr float ALIGN = __builtin_bit_cast(float, (128u - BIAS + DROPPED) << 23);
      code = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + ALIGN) -
             __builtin_bit_cast(uint32_t, ALIGN);
    }
    bits = static_cast<uint8_t>((b >> 24 & 0x80) | (code < LARGEST ? code : LARGEST));
  }
  GEMM_SIM_INLINE operator float() const {
    const uint32_t sign = uint32_t{bits & 0x80u} << 24, magnitude = bits & 0x7fu;
    if (magnitude > LARGEST) {  // infinity of e5m2, NaN
      const bool infinity = HAS_INFINITY && magnitude == 0x7c;
      return __builtin_bit_cast(float, infinity ? sign | 0x7f800000 : 0x7fffffffu);
    }
    if (magnitude >> MANTISSA == 0) {  // zero, subnormal: exact
      constexpr float UNIT = __builtin_bit_cast(float, (128u - BIAS - MANTISSA) << 23);
      return __builtin_bit_cast(
          float, sign | __builtin_bit_cast(uint32_t, static_cast<float>(magnitude) * UNIT));
    }
    return __builtin_bit_cast(float,
                              sign | ((magnitude << (23 - MANTISSA)) + ((127u - BIAS) << 23)));
  }
};
using f8e4m3 = Fp8<4>;
using f8e5m2 = Fp8<5>;

}  // namespace GEMM_BUILD
}  // namespace gemm::sim
