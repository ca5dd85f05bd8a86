// What planning looks at, of a call: a plain value. Host only.
#pragma once

namespace gemm {

// Requests to L2 for 128 bytes of an operand's row: one where rows lie in whole lines, more where
// they lie across two, `sectors` in whole 32 bytes, `half` not. Copies have whole lines.
enum class RowRequests { one, sectors, half };

struct PlannedProblem {
  int M, N, K;
  int products = 1;  // equal ones, in one launch
  int element_bytes;
  bool a_k_major, b_k_major;        // A as stored, B transposed
  bool a_aligned, b_aligned;        // rows are in whole 16 bytes: TMA can address them
  RowRequests a, b;                 // as the kernel reads them
  bool aligned_c;                   // C's rows are in whole 16 bytes
  bool reads_c, vectors, function;  // what an epilogue has: C, biases and scales, an activation
  bool whole_epilogue;  // one that only ping-pong kernels have: a pass follows the others

  double copied_elements() const {  // of operands that TMA cannot address
    return (a_aligned ? 0.0 : double(M) * K) + (b_aligned ? 0.0 : double(K) * N);
  }
};

}  // namespace gemm
