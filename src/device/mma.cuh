// What rungs taught about mma.sync: the instruction by element type.
#pragma once

#include <type_traits>

#include "device/ptx/mma.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// d += a * b: m16n8k16 of half or bf16, m16n8k8 of float (tf32). Layouts: device/ptx/mma.cuh. Taught
// in v10.
template <class T>
GEMM_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, half>) mma_m16n8k16_f16(d, a, b);
  if constexpr (std::is_same_v<T, bf16>) mma_m16n8k16_bf16(d, a, b);
  if constexpr (std::is_same_v<T, float>) mma_m16n8k8_tf32(d, a, b);
}
// m16n8k32 of int8, with sums of int32.
template <class T>
GEMM_DEVICE void mma(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, int8_t>);
  mma_m16n8k32_s8(d, a, b);
}

GEMM_BUILD_NAMESPACE_END
