// Eight 16-bit elements as floats, for what computes like tensor cores.
#pragma once

#include <bit>
#include <cstdint>

#include "device/platform.h"

namespace gemm::sim {

// 8 halves to floats.
inline void widen_halves(float* to, const uint16_t* from) {
#ifdef __F16C__
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  for (int e = 0; e < 8; ++e) to[e] = software::half_to_float(from[e]);
#endif
}

// 8 bf16 to floats: their upper halves.
inline void widen_bf16(float* to, const uint16_t* from) {
  for (int e = 0; e < 8; ++e) to[e] = std::bit_cast<float>(uint32_t{from[e]} << 16);
}

}  // namespace gemm::sim
