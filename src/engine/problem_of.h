// The planned problem of a call. Host code.
#pragma once

#include <cstdint>

#include "device/launch.h"
#include "device/persistent.cuh"
#include "device/tma_operands.cuh"
#include "device/vec.cuh"
#include "plan/problem.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Tiles of bm x bn of a whole batch; of groups, whose last rows of tiles may each be cut, the most.
template <class... T>
int64_t tiles_of_batch(const GemmArgs<T...>& p, int bm, int bn) {
  const int64_t rows = cdiv(p.M, bm), products = p.batch.count;
  return (p.batch.ends == nullptr ? rows * products : rows + products) * cdiv(p.N, bn);
}

// Whether there is a kernel for these layouts. A group of a transposed A begins at any column, and
// TMA wants one at a multiple of 16 bytes. Batches of two transposed operands are rare.
constexpr bool takes_majors(Products products, Major a, Major b) {
  return products == Products::one || a == Major::K ||
         (products == Products::batch && b == Major::MN);
}

// Whether one launch computes a batch or groups: TMA can address all, and an int counts their tiles.
template <class T>
bool fits_in_one_launch(const GemmArgs<T>& p) {
  return !p.batch.is_single() && tma_can_address(p.A, p.lda) && tma_can_address(p.B, p.ldb) &&
         p.batch.stride_a * sizeof(T) % 16 == 0 && p.batch.stride_b * sizeof(T) % 16 == 0 &&
         takes_majors(p.batch.ends == nullptr ? Products::batch : Products::groups,
                      p.op_a == Op::N ? Major::K : Major::MN,
                      p.op_b == Op::N ? Major::MN : Major::K) &&
         tiles_of_batch(p, 64, 128) < 1 << 30;
}

// How L2 is asked for a matrix's rows, `ld` elements apart.
template <class T>
RowRequests row_requests(const T* base, int64_t ld) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(base) | ld * sizeof(T);
  return at % 128 == 0 ? RowRequests::one : at % 32 == 0 ? RowRequests::sectors : RowRequests::half;
}

// Only the alignment of pointers matters. Groups count as equal: the plan knows their rows together.
template <class T>
PlannedProblem problem_of(const FusedArgs<T>& p) {
  // Copies lie in whole lines.
  const auto operand = [&](const T* base, int64_t ld) {
    return tma_can_address(base, ld) ? row_requests(base, ld) : RowRequests::one;
  };
  const bool groups = p.batch.ends != nullptr, in_one_launch = fits_in_one_launch(p);
  return {.M = groups ? cdiv(p.M, p.batch.count) : p.M,
          .N = p.N,
          .K = p.K,
          .products = in_one_launch ? p.batch.count : 1,
          .launches = in_one_launch ? 1 : p.batch.count,
          .groups = groups,
          .in_one_launch = in_one_launch,
          .element_bytes = int(sizeof(T)),
          .a_k_major = p.op_a == Op::N,
          .b_k_major = p.op_b == Op::T,
          .a_aligned = tma_can_address(p.A, p.lda),
          .b_aligned = tma_can_address(p.B, p.ldb),
          .a = operand(p.A, p.lda),
          .b = operand(p.B, p.ldb),
          .c = row_requests(p.C, p.ldc),
          .aligned_c = has_aligned_c(p),
          .reads_c = p.fused.reads_c(),
          .vectors = p.fused.has_vectors(),
          .function = info(p.fused.activation).roundings > 1,
          .whole_epilogue = wants_fused(p.fused),
          .gated = p.fused.gated,
          .invariant = p.invariant};
}

GEMM_BUILD_NAMESPACE_END
