#include "harness/problem.h"

#include <stdexcept>

namespace gemm {

std::string to_string(DType dtype) { return info(dtype).name; }

std::string dtype_names() {
  std::string all;
  for (const DType d : ALL_DTYPES) all += (all.empty() ? "" : ", ") + to_string(d);
  return all;
}

DType dtype_of(const std::string& name) {
  for (const DType d : ALL_DTYPES)
    if (name == to_string(d)) return d;
  throw std::invalid_argument("unknown dtype '" + name + "': choose from " + dtype_names());
}

std::string shape_name(const Problem& p) {
  return std::to_string(p.M) + "x" + std::to_string(p.N) + "x" + std::to_string(p.K);
}

std::string batch_name(const Problem& p) {
  if (p.groups.count > 0) return "groups:" + std::to_string(p.groups.count);
  if (p.batch == 1) return "";
  const char* const shared = p.shared_a && p.shared_b ? "AB" : p.shared_a ? "A" : "B";
  return "batch:" + std::to_string(p.batch) +
         (p.shared_a || p.shared_b ? "/shared:" + std::string(shared) : "");
}

std::string ops_name(const Problem& p) {
  return std::string(p.op_a == Op::N ? "n" : "t") + (p.op_b == Op::N ? "n" : "t");
}

std::string epilogue_name(const Problem& p) {
  std::string name;
#define ROW(operand) \
  if (p.operands.operand) name += (name.empty() ? "" : ",") + std::string(#operand);
  GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
  if (p.gated) name += name.empty() ? "gated" : ",gated";
  if (p.activation != Activation::none)
    name += (name.empty() ? "" : ",") + std::string(info(p.activation).name);
  return name;
}

bool has(const Problem& p, Operand operand) {
  switch (operand) {
    case Operand::A:
    case Operand::B:
    case Operand::C:
      return true;
#define ROW(name)     \
  case Operand::name: \
    return p.operands.name;
      GEMM_EPILOGUE_OPERANDS(ROW)
#undef ROW
    case Operand::scales_a:
    case Operand::scales_b:
      return info(p.dtype).has_block_scales();
  }
  return false;
}

MatrixLayout layout(const Problem& p, Operand operand) {
  const auto blocks = [](int extent, int of) { return (int64_t{extent} + of - 1) / of; };
  MatrixLayout l;
  l.rows = operand == Operand::B ? p.K : p.M;
  l.cols = operand == Operand::A ? p.K : operand == Operand::C && p.gated ? p.N / 2 : p.N;
  if ((operand == Operand::A && p.op_a == Op::T) || (operand == Operand::B && p.op_b == Op::T))
    std::swap(l.rows, l.cols);
  constexpr int RESIDUAL_PAD = 32;  // elements: whole groups of 16 bytes
  if (operand == Operand::bias || operand == Operand::scale_columns) l.rows = 1;
  if (operand == Operand::row_bias || operand == Operand::scale_rows) l.rows = 1, l.cols = p.M;
  if (operand == Operand::scales_a) l.rows = blocks(p.K, BlockScales::K), l.cols = p.M;
  if (operand == Operand::scales_b)
    l.rows = blocks(p.N, BlockScales::N), l.cols = blocks(p.K, BlockScales::K);
  const auto apart = [&](Problem::Apart what) { return p.apart == what && p.apart_of == operand; };
  l.ld = l.cols + p.ld_pad + apart(Problem::Apart::ld) +
         (operand == Operand::residual ? RESIDUAL_PAD : 0);
  if (operand == Operand::scales_b) l.ld += (4 - l.cols % 4) % 4;
  const bool of_a = operand == Operand::A || operand == Operand::scales_a;
  const bool of_b = operand == Operand::B || operand == Operand::scales_b;
  const bool each = operand == Operand::C || (of_a && !p.shared_a) || (of_b && !p.shared_b);
  l.products = operand == Operand::B && p.groups.count > 0 ? p.groups.count : each ? p.batch : 1;
  l.stride = l.rows * l.ld + p.batch_pad + apart(Problem::Apart::stride);
  const int64_t guard = GUARD_BYTES / element_size(p, operand);
  l.first = guard + p.misalign + apart(Problem::Apart::first);
  l.elements = l.first + (l.products - 1) * l.stride + l.rows * l.ld + guard;
  l.bytes = l.elements * element_size(p, operand);
  return l;
}

DenseProduct dense_product(const Problem& p, int index) {
  const int64_t M = p.M, N = p.N, K = p.K, i = index, b = p.shared_b ? 0 : i * K * N;
  if (p.groups.count == 0) return {p.M, p.shared_a ? 0 : i * M * K, b, i * M * N};
  const int64_t first = p.groups.first(index);
  return {static_cast<int>(p.groups.ends[index] - first), p.op_a == Op::N ? first * K : first, b,
          first * N};
}

GemmCall make_call(const Problem& p, const void* a, const void* b, void* c, void* stream) {
  const auto first = [&](Operand o) { return layout(p, o).first * element_size(p, o); };
  const auto stride = [&](Operand o) {
    const MatrixLayout l = layout(p, o);
    return l.products > 1 ? l.stride : 0;
  };
  return {p.M,
          p.N,
          p.K,
          static_cast<const char*>(a) + first(Operand::A),
          layout(p, Operand::A).ld,
          static_cast<const char*>(b) + first(Operand::B),
          layout(p, Operand::B).ld,
          static_cast<char*>(c) + first(Operand::C),
          layout(p, Operand::C).ld,
          p.epilogue(),
          p.op_a,
          p.op_b,
          stream,
          {products(p), stride(Operand::A), stride(Operand::B), stride(Operand::C),
           p.groups.count > 0 ? p.groups.ends : nullptr},
          {},
          p.invariant};
}

}  // namespace gemm
