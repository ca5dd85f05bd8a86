// One typed function per PTX instruction, each with a GPU branch and a simulator branch. Names
// follow the instruction. Layouts are those of the PTX ISA, "Warp-level matrix instructions": lane
// = 4 * group + quad position; see mma_* below.
#pragma once

#include "device/platform.h"

// The simulator names the kernel's line in its diagnoses; a GPU cannot.
#if GEMM_ON_GPU
#define GEMM_CALLER_ARG
#define GEMM_CALLER_PASS
#else
#define GEMM_CALLER_ARG , std::source_location where = std::source_location::current()
#define GEMM_CALLER_PASS , where
#endif

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
// The 32-bit address that PTX wants for a pointer into shared memory.
GEMM_DEVICE uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
#endif

// cp.async.cg: 16 bytes from global to shared memory past the registers, both addresses 16-byte
// aligned. Reads the first `src_bytes` (0..16) bytes and fills the rest with zeros; with 0 nothing
// is read. Complete only after cp_async_wait.
GEMM_DEVICE void cp_async_16(void* shared, const void* global, int src_bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(src_bytes)
               : "memory");
#else
  sim::cp_async(shared, global, 16, src_bytes GEMM_CALLER_PASS);
#endif
}

// cp.async.commit_group: closes this thread's current group of copies.
GEMM_DEVICE void cp_async_commit() {
#if GEMM_ON_GPU
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  sim::cp_async_commit();
#endif
}

// cp.async.wait_group: returns when at most PENDING of this thread's groups are still in flight.
template <int PENDING>
GEMM_DEVICE void cp_async_wait() {
#if GEMM_ON_GPU
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#else
  sim::cp_async_wait(PENDING);
#endif
}

// ldmatrix.x4: four 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of
// matrix l / 8 (16 bytes, aligned); lane l receives in r[i] elements 2 * (l % 4) and + 1 of row l /
// 4 of matrix i.
GEMM_DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/false GEMM_CALLER_PASS);
#endif
}

// ldmatrix.x4.trans: as above with each 8x8 matrix transposed on the way.
GEMM_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/true GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k16, f16 in, f32 accumulate: d += a * b. With g = lane / 4 and t = lane % 4, in
// 32-bit words of two halves (consecutive k, the lower k in the lower half):
//   a[0..3] = A(g, word t), A(g + 8, word t), A(g, word t + 4), A(g + 8, word t + 4)
//   b[0..1] = B(word t, g), B(word t + 4, g)
//   d[0..3] = D(g, 2t), D(g, 2t + 1), D(g + 8, 2t), D(g + 8, 2t + 1)
GEMM_DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_f16(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k8, tf32 in, f32 accumulate: d += a * b. The same picture as above with one tf32
// value a word.
GEMM_DEVICE void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_tf32(d, a, b GEMM_CALLER_PASS);
#endif
}

// cvt.rna.tf32.f32: rounds to 10 mantissa bits, to nearest with ties away from zero; the result is
// a float's bit pattern.
GEMM_DEVICE uint32_t cvt_rna_tf32(float x) {
#if GEMM_ON_GPU
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
#else
  return sim::cvt_rna_tf32(x);
#endif
}

GEMM_BUILD_NAMESPACE_END
