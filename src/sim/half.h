// IEEE 754 binary16. Include through device/platform.h, which names the build.
#pragma once

#include <cstdint>

#include "sim/vector_types.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace gemm::sim {
inline namespace GEMM_BUILD {

// The conversions without F16C; bit for bit what the instructions do.
namespace software {

GEMM_SIM_INLINE float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16, exponent = h >> 10 & 0x1f,
                 mantissa = h & 0x3ff;
  if (exponent == 0) {  // zero, subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 0x1f)  // infinity, NaN (made quiet)
    return __builtin_bit_cast(float,
                              sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
  return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | mantissa << 13);
}

GEMM_SIM_INLINE uint16_t float_to_half(float f) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, f);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t h;
  if (magnitude > 0x7f800000) {  // NaN: quiet, the top of its payload kept
    h = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // 65520, halfway between 65504 and 65536, and above
    h = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the least normal half, and above
    h = ((magnitude - (112u << 23)) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {  // a subnormal half: the addition aligns its last bit with the float's and rounds
    const float aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
    h = __builtin_bit_cast(uint32_t, aligned) - 0x3f000000;
  }
  return static_cast<uint16_t>(sign | h);
}

}  // namespace software

// Storage only: arithmetic goes through float, explicitly, since CUDA's half rounds each operation
// to half where this one would compute in float.
struct half {
  uint16_t bits;

  half() = default;
  // Rounds to nearest, ties to even; overflows to infinity; a NaN stays one.
  GEMM_SIM_INLINE explicit half(float f) {
#ifdef __F16C__
    bits = _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
#else
    bits = software::float_to_half(f);
#endif
  }
  GEMM_SIM_INLINE operator float() const {
#ifdef __F16C__
    return _cvtsh_ss(bits);
#else
    return software::half_to_float(bits);
#endif
  }
};

}  // namespace GEMM_BUILD
}  // namespace gemm::sim
