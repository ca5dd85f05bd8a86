// The vocabulary shared by rungs, harness and simulator. Nothing here depends on a backend.
#pragma once

#include <cstdint>

#include "dtypes.h"
#include "epilogue.h"

namespace gemm {

// op(X): N = as stored, T = transposed. op(A) is M x K and op(B) is K x N, so a transposed A is
// stored K x M.
enum class Op { N, T };

// Where a rung runs. sim_traced: in the simulator, compiled so that every access to memory is seen;
// for --inspect alone, never chosen as a backend.
enum class Backend { gpu, sim, sim_traced };

// How many products of one shape a call computes, and how far apart they lie: elements of each
// operand from a product to the next. A or B with a stride of 0 is the same for all; products of C
// do not overlap. The epilogue's vectors are the same for all; a residual goes with one product only.
//
// Or products of different heights, the groups of a mixture of experts. A and C are then one matrix
// of M rows each, of which group i has those from the end of the group before it to its own,
// ends[i]; it is multiplied by B's matrix i. `ends` lies where the matrices do and is read when the
// kernel runs. Rows behind the last end belong to no group: C's stay as they are.
struct Batch {
  int count = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  const int32_t* ends = nullptr;  // null: products of one shape
  constexpr bool is_single() const { return count == 1 && ends == nullptr; }
};

// Where a group ends whose rows begin at `first`, of M. Ends that fall or lie beyond M are a
// caller's mistake; no memory is touched for it that is not the caller's.
GEMM_INLINE_ANYWHERE constexpr int end_of_group(int end, int first, int M) {
  return end < first ? first : end < M ? end : M;
}

// Scales of the operands' blocks, of types that have them: each 1 x 128 of op(A) and 128 x 128 of
// op(B), counted from element (0, 0), is multiplied by a float. Those of A lie along m, those of B
// along k, as cuBLASLt's do. They need only the alignment of a float.
struct BlockScales {
  static constexpr int K = 128, N = 128;  // of a block

  const float* a = nullptr;  // (K / 128, M)
  int64_t lda = 0;
  const float* b = nullptr;  // (N / 128, K / 128)
  int64_t ldb = 0;
  int64_t stride_a = 0, stride_b = 0;  // of a batch, from a product's scales to the next one's

  GEMM_INLINE_ANYWHERE BlockScales of_product(int64_t index) const {
    BlockScales one = *this;
    if (a != nullptr) one.a += index * stride_a;
    if (b != nullptr) one.b += index * stride_b;
    return one;
  }
};

// One GEMM call with its types erased: C = act(alpha * op(A) * op(B) + beta * C), with what else the
// epilogue has, or a batch of them.
// Row-major; leading dimensions in elements, each >= the stored row's length; M, N, K >= 0.
// `stream` is a cudaStream_t, or null in the simulator. Pointers need only the alignment of their
// element type.
struct GemmCall {
  int M = 0, N = 0, K = 0;
  const void* A = nullptr;
  int64_t lda = 0;
  const void* B = nullptr;
  int64_t ldb = 0;
  void* C = nullptr;
  int64_t ldc = 0;
  FusedEpilogue epilogue = {};
  Op op_a = Op::N, op_b = Op::N;
  void* stream = nullptr;
  Batch batch = {};
  BlockScales scales = {};
  // Whether a row's bits must not depend on M, nor on the other rows: its products are added up in one
  // order, whatever the plan is.
  bool invariant = false;
};

}  // namespace gemm
