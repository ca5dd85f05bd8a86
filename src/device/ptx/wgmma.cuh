// wgmma: 64 x N tiles of a product by a whole warpgroup (four warps, the first a multiple of 4),
// asynchronously, operands in shared memory (PTX ISA, "Asynchronous warpgroup level matrix
// instructions"; sm_90a only). The order of calls, by all threads of the warpgroup:
//   wgmma_fence(); wgmma<...>(acc, ...) any number of times; wgmma_commit(); wgmma_wait<0>(acc);
// Between the first wgmma into an accumulator and its wait, nobody may touch it, nor write the
// operands.
#pragma once

#include "device/major.h"
#include "device/ptx/asm.cuh"
#include "device/ptx/wgmma_operands.h"

GEMM_BUILD_NAMESPACE_BEGIN

// wgmma.fence: what the warpgroup did to its registers before comes before what wgmma does to them.
// Before the first wgmma, and before the next into accumulators that were touched after a wait: the
// simulator cannot see whether they were, and so wants one after every wait that freed them.
GEMM_DEVICE void wgmma_fence(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region fence]
  GEMM_SM90A_ASM("wgmma.fence.sync.aligned;" ::: "memory");
  // [/region fence]
#else
  sim::runtime::wgmma_fence(where);
#endif
}

// wgmma.commit_group: closes the warpgroup's current group.
GEMM_DEVICE void wgmma_commit(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region commit]
  GEMM_SM90A_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
  // [/region commit]
#else
  sim::runtime::wgmma_commit(where);
#endif
}

// The operand fence: the compiler moves no use of these registers across it. It does not know that
// wgmma writes its accumulators only until the wait.
template <int COUNT>
GEMM_DEVICE void fence_operand(float (&d)[COUNT]) {
#if GEMM_ON_GPU
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(d[i])::"memory");
#else
  static_cast<void>(d);
#endif
}

template <int ROWS, int COUNT>
GEMM_DEVICE void fence_operand(float (&d)[ROWS][COUNT]) {
#pragma unroll
  for (int i = 0; i < ROWS; ++i) fence_operand(d[i]);
}

// Fences two integers: they are computed here, not where they are first used.
GEMM_DEVICE void fence_operand(int& a, int& b) {
#if GEMM_ON_GPU
  asm volatile("" : "+r"(a), "+r"(b));
#else
  static_cast<void>(a), static_cast<void>(b);
#endif
}

// Zeros, in the registers from here on: the compiler would rather write them just before wgmma.
template <int ROWS, int COUNT>
GEMM_DEVICE void clear_registers(float (&d)[ROWS][COUNT]) {
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int j = 0; j < COUNT; ++j) d[i][j] = 0;
  }
  fence_operand(d);
}

// wgmma.wait_group: returns when at most PENDING groups are in flight. Accumulators that are used
// after it need fence_operand; the second form includes it.
template <int PENDING>
GEMM_DEVICE void wgmma_wait(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region wait]
  GEMM_SM90A_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
  // [/region wait]
#else
  sim::runtime::wgmma_wait(PENDING, where);
#endif
}
template <int PENDING, int COUNT>
GEMM_DEVICE void wgmma_wait(float (&d)[COUNT] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  wgmma_wait<PENDING>();
#else
  wgmma_wait<PENDING>(where);
#endif
  fence_operand(d);
}

// Where an operand's tile lies, as a matrix descriptor says it (device/wgmma_descriptor.cuh): its
// address in shared memory, in bytes.
GEMM_DEVICE uint32_t tile_address(const void* tile GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  return shared_address(tile);
#else
  return sim::runtime::tile_address(tile GEMM_CALLER_PASS);
#endif
}

// wgmma.mma_async m64nNk16 (T = half, bf16), m64nNk8 (T = float: tf32, of which the lower 13 bits are
// ignored) or m64nNk32 (T = f8e4m3, f8e5m2), N = 8, 16 ... 256: d = A * B + (accumulate ? d : 0), A
// and B by their descriptors. FP8's sums keep fewer bits than a float: src/sim/tensor_sum.h.
// With warp w of the warpgroup, g = lane / 4, t = lane % 4, for each j < N / 8:
//   d[4j .. 4j + 3] = D(16w + g, 8j + 2t), D(.., 8j + 2t + 1), D(16w + g + 8, 8j + 2t), D(.., + 1)
// What the macro below writes for half, N = 128, A K-major and B MN-major:
// [region mma_async]
// setp.ne.b32 p, %66, 0;                                  // %66: accumulate
// wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
//     {%0, %1, %2, ... %63},                              // the accumulators
//     %64, %65,                                           // descriptors of A and B
//     p, 1, 1, 0, 1;                                      // signs of A and B; their majors
// [/region mma_async]
template <class T, int N, Major A_MAJOR = Major::K, Major B_MAJOR = Major::K>
GEMM_DEVICE void wgmma(float (&d)[N / 2], uint64_t a, uint64_t b, bool accumulate GEMM_CALLER_ARG) {
  static_assert(N % 8 == 0 && N >= 8 && N <= 256, "wgmma: N is a multiple of 8 up to 256");
  constexpr bool TF32 = std::is_same_v<T, float>, BF16 = std::is_same_v<T, bf16>;
  constexpr bool E4M3 = std::is_same_v<T, f8e4m3>, E5M2 = std::is_same_v<T, f8e5m2>;
  constexpr bool K_MAJOR_ONLY = TF32 || E4M3 || E5M2;
  static_assert(K_MAJOR_ONLY || BF16 || std::is_same_v<T, half>,
                "wgmma: half, bf16, float (tf32) or FP8");
  static_assert(!K_MAJOR_ONLY || (A_MAJOR == Major::K && B_MAJOR == Major::K),
                "tf32 and FP8 are K-major only");
#if GEMM_ON_GPU
#define GEMM_WGMMA(TYPES, N_, A_, B_, P_, MAJORS, ...)                         \
  GEMM_SM90A_ASM(                                                              \
      "{\n"                                                                    \
      ".reg .pred p;\n"                                                        \
      "setp.ne.b32 p, %" #P_                                                   \
      ", 0;\n"                                                                 \
      "wgmma.mma_async.sync.aligned.m64n" #N_ TYPES " {" GEMM_WGMMA_NAMES_##N_ \
      "}, %" #A_ ", %" #B_ ", p, 1, 1" MAJORS                                  \
      ";\n"                                                                    \
      "}"                                                                      \
      : GEMM_WGMMA_D_##N_                                                      \
      : "l"(a), "l"(b), "r"(int(accumulate)), ##__VA_ARGS__)
#define GEMM_WGMMA_SHAPE(N_, A_, B_, P_, TA_, TB_)                                         \
  if constexpr (N == N_) {                                                                 \
    if constexpr (TF32)                                                                    \
      GEMM_WGMMA("k8.f32.tf32.tf32", N_, A_, B_, P_, "");                                  \
    else if constexpr (E4M3)                                                               \
      GEMM_WGMMA("k32.f32.e4m3.e4m3", N_, A_, B_, P_, "");                                 \
    else if constexpr (E5M2)                                                               \
      GEMM_WGMMA("k32.f32.e5m2.e5m2", N_, A_, B_, P_, "");                                 \
    else if constexpr (BF16)                                                               \
      GEMM_WGMMA("k16.f32.bf16.bf16", N_, A_, B_, P_, ", %" #TA_ ", %" #TB_, "n"(A_IS_MN), \
                 "n"(B_IS_MN));                                                            \
    else                                                                                   \
      GEMM_WGMMA("k16.f32.f16.f16", N_, A_, B_, P_, ", %" #TA_ ", %" #TB_, "n"(A_IS_MN),   \
                 "n"(B_IS_MN));                                                            \
  }
  [[maybe_unused]] constexpr int A_IS_MN = A_MAJOR == Major::MN, B_IS_MN = B_MAJOR == Major::MN;
  GEMM_WGMMA_SHAPES(GEMM_WGMMA_SHAPE)
#undef GEMM_WGMMA_SHAPE
#undef GEMM_WGMMA
#else
  constexpr auto TYPE = TF32   ? sim::WgmmaType::tf32
                        : E4M3 ? sim::WgmmaType::e4m3
                        : E5M2 ? sim::WgmmaType::e5m2
                        : BF16 ? sim::WgmmaType::bf16
                               : sim::WgmmaType::f16;
  sim::runtime::wgmma({TYPE, N, A_MAJOR == Major::MN, B_MAJOR == Major::MN, a, b, accumulate},
                      d GEMM_CALLER_PASS);
#endif
}

GEMM_BUILD_NAMESPACE_END
