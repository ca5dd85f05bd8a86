// 8 x 8 matrices of 16-bit elements between shared memory and the registers of a warp (PTX ISA,
// "ldmatrix", "stmatrix", "movmatrix").
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// ldmatrix.x4: four 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of
// matrix l / 8 (16 bytes, aligned); lane l receives in r[i] elements 2 * (l % 4) and + 1 of row l /
// 4 of matrix i.
GEMM_DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region ldmatrix_x4]
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
  // [/region ldmatrix_x4]
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/false GEMM_CALLER_PASS);
#endif
}

// ldmatrix.x4.trans: as above with each 8x8 matrix transposed on the way.
GEMM_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region ldmatrix_x4_trans]
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
  // [/region ldmatrix_x4_trans]
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/true GEMM_CALLER_PASS);
#endif
}

// stmatrix.x<COUNT>, the inverse of ldmatrix: lane l gives the address of row l % 8 of matrix l / 8
// and, in r[i], elements 2 * (l % 4) and + 1 of row l / 4 of matrix i.
template <int COUNT>
GEMM_DEVICE void stmatrix(void* row, const uint32_t (&r)[COUNT] GEMM_CALLER_ARG) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "stmatrix stores 1, 2 or 4 matrices");
#if GEMM_ON_GPU
  if constexpr (COUNT == 1)
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(shared_address(row)),
                  "r"(r[0])
                  : "memory");
  else if constexpr (COUNT == 2)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
        "r"(r[0]), "r"(r[1])
        : "memory");
  else
    // [region stmatrix]
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                      shared_address(row)),
                  "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                  : "memory");
    // [/region stmatrix]
#else
  sim::runtime::stmatrix(r, COUNT, row, /*transposed=*/false GEMM_CALLER_PASS);
#endif
}

// stmatrix.x<COUNT>.trans: as above with each 8x8 matrix transposed on the way.
template <int COUNT>
GEMM_DEVICE void stmatrix_trans(void* row, const uint32_t (&r)[COUNT] GEMM_CALLER_ARG) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "stmatrix stores 1, 2 or 4 matrices");
#if GEMM_ON_GPU
  if constexpr (COUNT == 1)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(shared_address(row)),
        "r"(r[0])
        : "memory");
  else if constexpr (COUNT == 2)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
        "r"(r[0]), "r"(r[1])
        : "memory");
  else
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                      shared_address(row)),
                  "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                  : "memory");
#else
  sim::runtime::stmatrix(r, COUNT, row, /*transposed=*/true GEMM_CALLER_PASS);
#endif
}

// movmatrix.trans: an 8x8 matrix turned round in registers; lane l has elements 2 * (l % 4) and + 1
// of its row l / 4, before and after.
GEMM_DEVICE uint32_t movmatrix_trans(uint32_t pair) {
#if GEMM_ON_GPU
  uint32_t turned = 0;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
#else
  const int lane = threadIdx.x % 32, from = lane % 4 * 8 + lane / 8, shift = lane / 4 % 2 * 16;
  const uint32_t even = __shfl_sync(~0u, pair, from), odd = __shfl_sync(~0u, pair, from + 4);
  return (even >> shift & 0xFFFF) | (odd >> shift & 0xFFFF) << 16;
#endif
}

GEMM_BUILD_NAMESPACE_END
