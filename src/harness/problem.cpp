#include "harness/problem.h"

#include <stdexcept>

namespace gemm {

std::string to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::tf32:
      return "tf32";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

DType dtype_of(const std::string& name) {
  for (const DType d : {DType::f32, DType::f16, DType::tf32, DType::bf16})
    if (name == to_string(d)) return d;
  throw std::invalid_argument("unknown dtype '" + name + "': choose from f32, f16, tf32, bf16");
}

std::string shape_name(const Problem& p) {
  return std::to_string(p.M) + "x" + std::to_string(p.N) + "x" + std::to_string(p.K);
}

std::string ops_name(const Problem& p) {
  return std::string(p.op_a == Op::N ? "n" : "t") + (p.op_b == Op::N ? "n" : "t");
}

size_t element_size(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? 2 : 4; }

MatrixLayout layout(const Problem& p, Operand operand) {
  MatrixLayout l;
  l.rows = operand == Operand::B ? p.K : p.M;
  l.cols = operand == Operand::A ? p.K : p.N;
  if ((operand == Operand::A && p.op_a == Op::T) || (operand == Operand::B && p.op_b == Op::T))
    std::swap(l.rows, l.cols);
  l.ld = l.cols + p.ld_pad;
  const int64_t guard = GUARD_BYTES / element_size(p.dtype);
  l.first = guard + p.misalign;
  l.elements = l.first + l.rows * l.ld + guard;
  l.bytes = l.elements * element_size(p.dtype);
  return l;
}

GemmCall make_call(const Problem& p, const void* a, const void* b, void* c, void* stream) {
  const auto first = [&](Operand o) { return layout(p, o).first * element_size(p.dtype); };
  return {p.M,
          p.N,
          p.K,
          static_cast<const char*>(a) + first(Operand::A),
          layout(p, Operand::A).ld,
          static_cast<const char*>(b) + first(Operand::B),
          layout(p, Operand::B).ld,
          static_cast<char*>(c) + first(Operand::C),
          layout(p, Operand::C).ld,
          p.alpha,
          p.beta,
          p.op_a,
          p.op_b,
          stream};
}

}  // namespace gemm
