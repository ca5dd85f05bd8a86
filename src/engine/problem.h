// What the engine's plan looks at, of a call. Host code.
#pragma once

#include <cstdint>

#include "device/tma_operands.cuh"
#include "plan/engine.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using namespace engine;

// The problem of a call. Only the alignment of pointers matters.
template <class T>
Problem problem_of(const FusedArgs<T>& p) {
  const auto requests = [](const T* base, int64_t ld) {
    constexpr int SECTOR = 32;
    if (!straddles_lines(base, ld)) return RowRequests::one;
    const bool whole =
        reinterpret_cast<uintptr_t>(base) % SECTOR == 0 && ld * sizeof(T) % SECTOR == 0;
    return whole ? RowRequests::sectors : RowRequests::half;
  };
  Problem problem{};
  problem.M = p.M, problem.N = p.N, problem.K = p.K, problem.element_bytes = int(sizeof(T));
  problem.a_k_major = p.op_a == Op::N, problem.b_k_major = p.op_b == Op::T;
  problem.a = requests(p.A, p.lda), problem.b = requests(p.B, p.ldb);
  if (!tma_can_address(p.A, p.lda)) problem.copied_elements += double(p.M) * p.K;
  if (!tma_can_address(p.B, p.ldb)) problem.copied_elements += double(p.K) * p.N;
  problem.aligned_c = has_aligned_c(p);
  problem.reads_c = p.fused.reads_c(), problem.vectors = p.fused.has_vectors();
  problem.function = info(p.fused.activation).roundings > 1;
  problem.whole_epilogue = wants_fused(p.fused);
  return problem;
}

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
