// The vocabulary shared by rungs, harness and simulator. Nothing here depends on a backend.
#pragma once

#include <cstdint>

namespace gemm {

// What is multiplied. Storage and result have the same type; accumulation is always float.
//   f32   float in, FP32 multiply-add            f16   half in, half out, float accumulation
//   bf16  bfloat16 in and out, likewise
//   tf32  float in and out, multiplied on tensor cores after rounding to 10 mantissa bits: NOT
//   single precision, always labelled
enum class DType { f32, f16, tf32, bf16 };

// op(X): N = as stored, T = transposed. op(A) is M x K and op(B) is K x N, so a transposed A is
// stored K x M.
enum class Op { N, T };

// Where a rung runs. sim_traced: in the simulator, compiled so that every access to memory is seen;
// for --inspect alone, never chosen as a backend.
enum class Backend { gpu, sim, sim_traced };

// One GEMM call with its types erased: C = alpha * op(A) * op(B) + beta * C.
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
  float alpha = 1, beta = 0;
  Op op_a = Op::N, op_b = Op::N;
  void* stream = nullptr;
};

}  // namespace gemm
