#include <cblas.h>

#include <algorithm>
#include <cmath>

#include "harness/device.h"
#include "harness/host_matrix.h"

namespace gemm {
namespace {

// The stored matrix as doubles, rounded to the storage type as the device's copy is, rows packed.
std::vector<double> values(const Problem& p, Operand operand, Inputs kind, uint64_t seed) {
  const MatrixLayout l = layout(p, operand);
  std::vector<double> out(l.rows * l.cols);
  const uint64_t matrix = matrix_seed(seed, static_cast<int>(operand));
  for (size_t i = 0; i < out.size(); ++i) out[i] = round_to(p.dtype, random_value(matrix, i, kind));
  return out;
}

// out = alpha * op(a) * op(b) + out.
void dgemm(const Problem& p, double alpha, const std::vector<double>& a,
           const std::vector<double>& b, std::vector<double>& out) {
  if (p.M == 0 || p.N == 0 || p.K == 0) return;
  const auto op = [](Op o) { return o == Op::N ? CblasNoTrans : CblasTrans; };
  cblas_dgemm(CblasRowMajor, op(p.op_a), op(p.op_b), p.M, p.N, p.K, alpha, a.data(),
              static_cast<int>(layout(p, Operand::A).cols), b.data(),
              static_cast<int>(layout(p, Operand::B).cols), 1, out.data(), p.N);
}

}  // namespace

HostReference cpu_reference(const Problem& p, Inputs kind, uint64_t seed) {
  HostReference r;
  r.want.assign(int64_t{p.M} * p.N, 0.0);
  if (p.beta != 0) {
    r.want = values(p, Operand::C, kind, seed);
    for (double& c : r.want) c *= p.beta;
  }
  r.magnitude = r.want;
  for (double& c : r.magnitude) c = std::abs(c);
  if (p.alpha == 0) return r;
  std::vector<double> a = values(p, Operand::A, kind, seed), b = values(p, Operand::B, kind, seed);
  dgemm(p, p.alpha, a, b, r.want);
  for (double& x : a) x = std::abs(x);
  for (double& x : b) x = std::abs(x);
  dgemm(p, std::abs(p.alpha), a, b, r.magnitude);
  return r;
}

}  // namespace gemm
