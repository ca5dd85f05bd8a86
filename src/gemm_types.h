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

// One GEMM call with its types erased: C = act(alpha * op(A) * op(B) + beta * C), with what else
// the epilogue has.
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
  Epilogue epilogue = {};
  Op op_a = Op::N, op_b = Op::N;
  void* stream = nullptr;
};

}  // namespace gemm
