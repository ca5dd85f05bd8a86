#include <cblas.h>

#include "harness/device.h"
#include "harness/host_matrix.h"
#include "harness/nvtx.h"

namespace gemm {
namespace {

// The stored matrix as doubles, rounded to the storage type as the device's copy is, rows packed; of
// a batch, all of them.
std::vector<double> values(const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  const MatrixLayout l = layout(p, operand);
  const Generator generator(p, kind, seed);
  std::vector<double> out;
  out.reserve(l.all_rows() * l.cols);
  for (int64_t row = 0; row < l.all_rows(); ++row)
    for (int64_t col = 0; col < l.cols; ++col)
      out.push_back(round_to(p.dtype, generator.stored(operand, row, col), operand));
  return out;
}

}  // namespace

HostReference cpu_reference(const Problem& p, Inputs kind, uint64_t seed) {
  const NvtxRange range("reference on the CPU");
  HostReference r;
  r.want.assign(int64_t{p.batch} * p.M * p.N, 0.0);
  if (p.beta != 0) {
    r.want = values(p, Operand::C, kind, seed);
    for (double& c : r.want) c *= p.beta;
  }
  if (p.alpha == 0 || p.M == 0 || p.N == 0 || p.K == 0) return r;
  const std::vector<double> a = values(p, Operand::A, kind, seed),
                            b = values(p, Operand::B, kind, seed);
  const auto op = [](Op o) { return o == Op::N ? CblasNoTrans : CblasTrans; };
  const int64_t next_a = p.shared_a ? 0 : int64_t{p.M} * p.K;
  const int64_t next_b = p.shared_b ? 0 : int64_t{p.K} * p.N, next_c = int64_t{p.M} * p.N;
  for (int i = 0; i < p.batch; ++i)
    cblas_dgemm(CblasRowMajor, op(p.op_a), op(p.op_b), p.M, p.N, p.K, p.alpha,
                a.data() + i * next_a, static_cast<int>(layout(p, Operand::A).cols),
                b.data() + i * next_b, static_cast<int>(layout(p, Operand::B).cols), 1,
                r.want.data() + i * next_c, p.N);
  return r;
}

HostReference known_result(const Problem& p, Inputs kind, uint64_t seed) {
  const Generator generator(p, kind, seed);
  HostReference r;
  r.want.reserve(int64_t{p.batch} * p.M * p.N);
  for (int64_t m = 0; m < int64_t{p.batch} * p.M; ++m)
    for (int64_t n = 0; n < p.N; ++n) r.want.push_back(generator.result(p, m, n));
  return r;
}

}  // namespace gemm
