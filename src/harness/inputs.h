// What the matrices hold: a counter-based generator, the same on CPU and GPU, so that a reference
// never has to download its inputs.
#pragma once

#include <cstdint>

#include "gemm_types.h"

#ifdef __CUDACC__
#define GEMM_HOST_DEVICE __host__ __device__
#else
#define GEMM_HOST_DEVICE
#endif

namespace gemm {

enum class Inputs {
  integers,  // -3 .. 3: every product and sum is exact in float, so results must match bit for bit
  uniform,   // uniform in [-1, 1), multiples of 2^-23
};

// Mixes (seed, index) into 64 well-spread bits (the finaliser of SplitMix64, Steele et al. 2014).
GEMM_HOST_DEVICE inline uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15ull + index + 0x632BE59BD9B4E019ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Element `index` = row * cols + col of the stored matrix, before rounding to the storage type.
// `seed` names the matrix.
GEMM_HOST_DEVICE inline float random_value(uint64_t seed, uint64_t index, Inputs kind) {
  const uint64_t bits = mix(seed, index);
  if (kind == Inputs::integers) return static_cast<float>(static_cast<int>(bits % 7) - 3);
  return static_cast<float>(static_cast<int>(bits >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

// The matrices of one problem get seed * 3 + {0: A, 1: B, 2: C before the call}.
GEMM_HOST_DEVICE inline uint64_t matrix_seed(uint64_t seed, int operand) {
  return seed * 3 + operand;
}

// What fills the guards and the gap between columns and ld. A and B: NaN (0x7FFF in f16, 0x7FFFFFFF
// in f32), so that a stray read poisons the result. C: these bits (repeated 16-bit pattern 0xA5C3),
// so that a stray write is seen.
constexpr uint16_t CANARY = 0xA5C3;

}  // namespace gemm
