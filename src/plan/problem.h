// What planning looks at, of a call: a plain value. Host only.
#pragma once

namespace gemm {

constexpr int ceil_div(int a, int b) { return a / b + (a % b != 0); }

// Requests to L2 for 128 bytes of a row of an operand or of C: one where rows lie in whole lines,
// more where they lie across two, `sectors` in whole 32 bytes, `half` not. Copies have whole lines.
enum class RowRequests { one, sectors, half };

// Operands as stored, rows in whole lines and no epilogue, unless said otherwise.
struct PlannedProblem {
  int M = 0, N = 0, K = 0;
  int products = 1;  // equal ones, in one launch
  int launches = 1;  // of so many: of products that one launch cannot compute
  bool groups = false, in_one_launch = false;  // a batch's products have rows of their own
  int element_bytes = 2;
  bool a_k_major = true, b_k_major = false;  // A as stored, B transposed
  bool a_aligned = true, b_aligned = true;   // rows of whole 16 bytes: TMA can address them
  RowRequests a = RowRequests::one, b = RowRequests::one;  // as the kernel reads them
  RowRequests c = RowRequests::one;                        // as it writes C
  bool aligned_c = true;                                   // C's rows are in whole 16 bytes
  // What an epilogue has: C; biases and scales; an activation.
  bool reads_c = false, vectors = false, function = false;
  bool whole_epilogue = false;  // one that only ping-pong kernels have: a pass follows the others
  bool gated = false;           // one that only equal tiles have
  bool invariant = false;       // GemmCall::invariant

  double copied_elements() const {  // of operands that TMA cannot address
    return (a_aligned ? 0.0 : double(M) * K) + (b_aligned ? 0.0 : double(K) * N);
  }
};

}  // namespace gemm
