// One GEMM problem and how its matrices lie in memory.
#pragma once

#include <cstdint>
#include <string>

#include "gemm_types.h"

namespace gemm {

constexpr int LARGEST_EXTENT = 2147483647 - 1024;  // a tile's end must fit in an int (rung.h)

// Which operands an epilogue has, with the names that the command line knows them by.
#define GEMM_EPILOGUE_OPERANDS(ROW) \
  ROW(residual)                     \
  ROW(bias)                         \
  ROW(row_bias)                     \
  ROW(scale_rows)                   \
  ROW(scale_columns)
struct EpilogueOperands {
#define ROW(name) bool name = false;
  GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
  bool operator==(const EpilogueOperands&) const = default;
  GEMM_HOST_DEVICE bool any() const { return *this != EpilogueOperands(); }
  GEMM_HOST_DEVICE int biases() const { return int{bias} + int{row_bias}; }
  GEMM_HOST_DEVICE int scales() const { return int{scale_rows} + int{scale_columns}; }
};

// Products of different heights (Batch::ends). A plain value, for a kernel to take as an argument.
struct Groups {
  static constexpr int MOST = 256;
  int count = 0;        // 0: none, the problem is one product or a batch of equal ones
  int ends[MOST] = {};  // of each group the row behind its last; of the last one Problem::M
  bool operator==(const Groups&) const = default;
  int first(int group) const { return group == 0 ? 0 : ends[group - 1]; }
  // The group that a row belongs to.
  GEMM_HOST_DEVICE int of_row(int64_t row) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (row < ends[middle])
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

// What a problem's calls have beside A, B and C, as far as has() says.
#define GEMM_OTHER_OPERANDS(ROW) \
  GEMM_EPILOGUE_OPERANDS(ROW)    \
  ROW(scales_a)                  \
  ROW(scales_b)

// C = act(alpha * op(A) * op(B) + beta * C). Leading dimension of every matrix = its columns + ld_pad.
struct Problem {
  DType dtype = DType::f32;
  int M = 0, N = 0, K = 0;
  Op op_a = Op::N, op_b = Op::N;
  float alpha = 1, beta = 0;
  int ld_pad = 0;  // elements
  int misalign =
      0;  // elements by which every matrix's first element is moved past a 256-byte boundary
  Activation activation = Activation::none;
  EpilogueOperands operands = {};           // vectors are one for all products
  bool gated = false;                       // D has half of the N columns (FusedEpilogue::gated)
  int batch = 1;                            // products; their matrices follow each other
  int batch_pad = 0;                        // elements between them
  bool shared_a = false, shared_b = false;  // one A, one B for all products
  Groups groups = {};                       // then M is the rows of all, and batch 1
  bool invariant = false;                   // GemmCall::invariant
  double product_error = 0;                 // what the check allows a product (Rung::product_error)
  // Kinds of the inputs `products`: with infinities, NaN and numbers near the range's ends, and
  // with one row of A and one column of B of the other sign.
  bool wide_range = false, turned = false;
  // What one operand alone has one element more of, which takes it off every alignment.
  enum class Apart { nothing, ld, first, stride };
  Apart apart = Apart::nothing;
  Operand apart_of = Operand::A;
  GEMM_INLINE_ANYWHERE FusedEpilogue epilogue() const {
    FusedEpilogue e{alpha, beta, activation};
    e.gated = gated;
    return e;
  }
  bool operator==(const Problem&) const = default;
};

std::string to_string(DType dtype);        // "f32", "f16", "tf32", "bf16", ...
DType dtype_of(const std::string& name);   // the inverse; throws std::invalid_argument
std::string dtype_names();                 // "f32, f16, ...": all
std::string shape_name(const Problem& p);  // "4096x4096x128" (M x N x K)
std::string batch_name(const Problem& p);  // "batch:64/shared:B", "groups:8"; empty of one product
std::string ops_name(const Problem& p);    // "nn", "tn", ...
std::string epilogue_name(const Problem& p);  // "bias,gelu"; empty: alpha and beta alone
inline size_t element_size(const Problem& p, Operand operand) {  // bytes
  return info(info(p.dtype).element(operand)).bytes;
}
// Whether a call of the problem has this operand.
bool has(const Problem& p, Operand operand);
// Whether a call of the problem reads what D's memory holds.
GEMM_HOST_DEVICE inline bool reads_d(const Problem& p) {
  return p.beta != 0 && !p.operands.residual;
}
// How many matrices B there are for products to have one each.
GEMM_HOST_DEVICE inline int products(const Problem& p) {
  return p.groups.count > 0 ? p.groups.count : p.batch;
}
// The product that a row of C belongs to, of the rows of all.
GEMM_HOST_DEVICE inline int64_t product_of_row(const Problem& p, int64_t row) {
  return p.groups.count > 0 ? p.groups.of_row(row) : row / p.M;
}
inline double flops(const Problem& p) { return 2.0 * p.M * p.N * p.K * p.batch; }

// A guarded matrix: GUARD_BYTES, misalign elements, rows x ld elements, GUARD_BYTES; the allocation
// is 256-byte aligned. Of a batch the products' matrices, batch_pad elements apart, in place of one.
// Whoever fills or checks sees them as one matrix of products x rows rows, the "rows of all".
struct MatrixLayout {
  int64_t rows = 0, cols = 0, ld = 0;
  int64_t products = 1;  // matrices: 1 of an operand that all products share
  int64_t stride = 0;    // elements from one to the next
  int64_t first = 0;     // element (0, 0)'s index from the start of the allocation
  int64_t elements = 0;  // the whole allocation, guards included
  size_t bytes = 0;      // the same in bytes

  GEMM_HOST_DEVICE int64_t all_rows() const { return products * rows; }
  // The index of an element in the allocation, by its row of all.
  GEMM_HOST_DEVICE int64_t index(int64_t row, int64_t col) const {
    return first + row / rows * stride + row % rows * ld + col;
  }
  // The reverse: row * cols + col of what lies at an index, or -1 in guards and gaps.
  GEMM_HOST_DEVICE int64_t element(int64_t index) const {
    int64_t offset = index - first, product = 0;
    if (products > 1 && stride > 0 && offset >= 0) {
      product = offset / stride;
      offset -= product * stride;
    }
    if (offset < 0 || offset >= rows * ld || product >= products) return -1;
    const int64_t row = offset / ld, col = offset - row * ld;
    return col < cols ? (product * rows + row) * cols + col : -1;
  }
};
constexpr size_t GUARD_BYTES = 4096;

// The stored matrix: A is M x K, or K x M when op_a is T; B is K x N, or N x K when op_b is T; C is
// M x N, or M x N / 2 where it is gated, and a residual M x N, with a row pitch of its own. Vectors are one row. Rows of scales are as
// long as cuBLASLt has them: M of A's, of B's whole fours.
MatrixLayout layout(const Problem& p, Operand operand);

// One product of a problem whose matrices lie one after the other without gaps: its rows, and where
// its A, B and C begin.
struct DenseProduct {
  int rows;
  int64_t a, b, c;
};
DenseProduct dense_product(const Problem& p, int index);

// A call of the problem on three guarded allocations. The ends of groups are the problem's own, which
// a plan may see; a launch wants them on the device (OperandBuffers::attach).
GemmCall make_call(const Problem& p, const void* a, const void* b, void* c, void* stream = nullptr);

}  // namespace gemm
