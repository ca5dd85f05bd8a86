// The planned problem of a call. Host code.
#pragma once

#include <cstdint>

#include "device/launch.h"
#include "device/tma_operands.cuh"
#include "device/vec.cuh"
#include "plan/problem.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Only the alignment of pointers matters.
template <class T>
PlannedProblem problem_of(const FusedArgs<T>& p) {
  const auto requests = [](const T* base, int64_t ld) {
    constexpr int SECTOR = 32;
    if (!straddles_lines(base, ld)) return RowRequests::one;
    const bool whole =
        reinterpret_cast<uintptr_t>(base) % SECTOR == 0 && ld * sizeof(T) % SECTOR == 0;
    return whole ? RowRequests::sectors : RowRequests::half;
  };
  return {.M = p.M,
          .N = p.N,
          .K = p.K,
          .element_bytes = int(sizeof(T)),
          .a_k_major = p.op_a == Op::N,
          .b_k_major = p.op_b == Op::T,
          .a_aligned = tma_can_address(p.A, p.lda),
          .b_aligned = tma_can_address(p.B, p.ldb),
          .a = requests(p.A, p.lda),
          .b = requests(p.B, p.ldb),
          .aligned_c = has_aligned_c(p),
          .reads_c = p.fused.reads_c(),
          .vectors = p.fused.has_vectors(),
          .function = info(p.fused.activation).roundings > 1,
          .whole_epilogue = wants_fused(p.fused)};
}

GEMM_BUILD_NAMESPACE_END
