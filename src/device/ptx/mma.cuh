// mma.sync: a warp's product of small matrices by the tensor cores, operands in registers (PTX ISA,
// "Warp-level matrix instructions"). Lane = 4 * group + quad position.
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// mma.sync.m16n8k16, f16 in, f32 accumulate: d += a * b. With g = lane / 4 and t = lane % 4, in
// 32-bit words of two halves (consecutive k, the lower k in the lower half):
//   a[0..3] = A(g, word t), A(g + 8, word t), A(g, word t + 4), A(g + 8, word t + 4)
//   b[0..1] = B(word t, g), B(word t + 4, g)
//   d[0..3] = D(g, 2t), D(g, 2t + 1), D(g + 8, 2t), D(g + 8, 2t + 1)
GEMM_DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region ptx]
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  // [/region ptx]
#else
  sim::mma_f16(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k16, bf16 in, f32 accumulate: as above.
GEMM_DEVICE void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_bf16(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k8, tf32 in, f32 accumulate: d += a * b. The same picture as above with one tf32
// value a word.
GEMM_DEVICE void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_tf32(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k32, int8 in, int32 accumulate: d += a * b. The same picture as above with four
// values a word. Sums wrap around.
GEMM_DEVICE void mma_m16n8k32_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
  for (int t = 0; t < 4; ++t)  // the four lanes that have a row of A or a column of B
    for (int w = 0; w < 2; ++w)
      for (int i = 0; i < 4; ++i) {
        const uint32_t x = __shfl_sync(~0u, a[i / 2 + 2 * w], group * 4 + t);
        const uint32_t y = __shfl_sync(~0u, b[w], (quad * 2 + i % 2) * 4 + t);
        for (int byte = 0; byte < 32; byte += 8)
          d[i] += int8_t(x >> byte & 0xFF) * int8_t(y >> byte & 0xFF);
      }
#endif
}

// cvt.rna.tf32.f32: rounds to 10 mantissa bits, to nearest with ties away from zero; the result is
// a float's bit pattern.
GEMM_DEVICE uint32_t cvt_rna_tf32(float x) {
#if GEMM_ON_GPU
  uint32_t r = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));  // not volatile: it may move
#else
  __trap();
#endif
  return r;
#else
  return sim::cvt_rna_tf32(x);
#endif
}

GEMM_BUILD_NAMESPACE_END
