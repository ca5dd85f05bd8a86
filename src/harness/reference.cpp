#include <cblas.h>

#include "harness/device.h"
#include "harness/host_matrix.h"
#include "harness/nvtx.h"

namespace gemm {
namespace {

// The stored matrix as doubles, rounded to the storage type as the device's copy is and times its
// blocks' scales, rows packed; of a batch, all of them.
[[gnu::flatten]] std::vector<double> values(const Problem& p, Operand operand, Inputs kind,
                                            uint64_t seed) {
  const MatrixLayout l = layout(p, operand);
  const Generator generator(p, kind, seed);
  const bool scaled = operand == Operand::A || operand == Operand::B;
  std::vector<double> out;
  out.reserve(l.all_rows() * l.cols);
  for (int64_t row = 0; row < l.all_rows(); ++row)
    for (int64_t col = 0; col < l.cols; ++col)
      out.push_back(round_to(p.dtype, generator.stored(operand, row, col), operand) *
                    (scaled ? generator.block_scale(operand, row, col) : 1));
  return out;
}

// The epilogue's scales and biases on a product, and C: what a BLAS does not do.
void finish(HostReference& r, const Problem& p, Inputs kind, uint64_t seed) {
  const auto vector = [&](bool is_there, Operand operand) {
    return is_there ? values(p, operand, kind, seed) : std::vector<double>();
  };
  r.scale_rows = vector(p.operands.scale_rows, Operand::scale_rows);
  r.scale_columns = vector(p.operands.scale_columns, Operand::scale_columns);
  const std::vector<double> bias = vector(p.operands.bias, Operand::bias);
  const std::vector<double> row_bias = vector(p.operands.row_bias, Operand::row_bias);
  const std::vector<double> c = vector(p.beta != 0, Operand::C);
  for (int64_t m = 0; m < int64_t{p.batch} * p.M; ++m)  // of all products
    for (int64_t n = 0; n < p.N; ++n) {
      double& want = r.want[m * p.N + n];
      want = r.scale(m, n) * want + (c.empty() ? 0 : p.beta * c[m * p.N + n]) +
             (bias.empty() ? 0 : bias[n]) + (row_bias.empty() ? 0 : row_bias[m % p.M]);
    }
}

}  // namespace

HostReference cpu_reference(const Problem& p, Inputs kind, uint64_t seed) {
  const NvtxRange range("reference on the CPU");
  HostReference r;
  r.want.assign(int64_t{p.batch} * p.M * p.N, 0.0);
  if (r.want.empty()) return r;
  if (p.alpha == 0 || p.K == 0) {
    finish(r, p, kind, seed);
    return r;
  }
  const std::vector<double> a = values(p, Operand::A, kind, seed),
                            b = values(p, Operand::B, kind, seed);
  const auto op = [](Op o) { return o == Op::N ? CblasNoTrans : CblasTrans; };
  for (int i = 0; i < products(p); ++i) {
    const DenseProduct one = dense_product(p, i);
    if (one.rows == 0) continue;
    cblas_dgemm(CblasRowMajor, op(p.op_a), op(p.op_b), one.rows, p.N, p.K, p.alpha,
                a.data() + one.a, static_cast<int>(layout(p, Operand::A).cols), b.data() + one.b,
                static_cast<int>(layout(p, Operand::B).cols), 0, r.want.data() + one.c, p.N);
  }
  finish(r, p, kind, seed);
  return r;
}

[[gnu::flatten]] HostReference known_result(const Problem& p, Inputs kind, uint64_t seed) {
  const Generator generator(p, kind, seed);
  HostReference r;
  r.want.reserve(int64_t{p.batch} * p.M * p.N);
  for (int64_t m = 0; m < int64_t{p.batch} * p.M; ++m)
    for (int64_t n = 0; n < p.N; ++n) r.want.push_back(generator.result(p, m, n));
  if (p.operands.scale_rows)
    for (int64_t m = 0; m < p.M; ++m)
      r.scale_rows.push_back(generator.stored(Operand::scale_rows, 0, m));
  if (p.operands.scale_columns)
    for (int64_t n = 0; n < p.N; ++n)
      r.scale_columns.push_back(generator.stored(Operand::scale_columns, 0, n));
  return r;
}

}  // namespace gemm
