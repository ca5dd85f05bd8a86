// bfloat16: the upper half of a float. Include through device/platform.h, which names the build.
#pragma once

#include <cstdint>

#include "sim/vector_types.h"

namespace gemm::sim {
inline namespace GEMM_BUILD {

// Storage only, as half.
struct bf16 {
  uint16_t bits;

  bf16() = default;
  // Rounds to nearest, ties to even; overflows to infinity; a NaN becomes the canonical one.
  GEMM_SIM_INLINE explicit bf16(float f) {
    const uint32_t b = __builtin_bit_cast(uint32_t, f);
    bits = (b & 0x7fffffff) > 0x7f800000
               ? uint16_t{0x7fff}
               : static_cast<uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
  }
  GEMM_SIM_INLINE operator float() const { return __builtin_bit_cast(float, uint32_t{bits} << 16); }
};

}  // namespace GEMM_BUILD
}  // namespace gemm::sim
