// What the harness calls of BLAS, as plain loops: for the wheel's gemm_bench, whose problems are small.
// OpenBLAS would be half of the wheel.
#include <cblas.h>

#include <cmath>
#include <utility>

namespace {

template <class T>
void gemm(bool by_rows, bool trans_a, bool trans_b, int m, int n, int k, T alpha, const T* a,
          int lda, const T* b, int ldb, T beta, T* c, int ldc) {
  if (!by_rows) {  // C^T = B^T A^T
    std::swap(trans_a, trans_b), std::swap(m, n), std::swap(a, b), std::swap(lda, ldb);
  }
  const auto place = [](bool trans, long row, long col, int ld) {
    return trans ? col * ld + row : row * ld + col;
  };
  for (long i = 0; i < m; ++i) {
    T* const row = c + i * ldc;
    for (int j = 0; j < n; ++j) row[j] = beta == 0 ? 0 : beta * row[j];
    for (int l = 0; l < k; ++l) {
      const T x = alpha * a[place(trans_a, i, l, lda)];
      for (int j = 0; j < n; ++j) row[j] += x * b[place(trans_b, l, j, ldb)];
    }
  }
}

}  // namespace

extern "C" {

void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, blasint m,
                 blasint n, blasint k, double alpha, const double* a, blasint lda, const double* b,
                 blasint ldb, double beta, double* c, blasint ldc) {
  gemm(order == CblasRowMajor, op_a != CblasNoTrans, op_b != CblasNoTrans, m, n, k, alpha, a, lda,
       b, ldb, beta, c, ldc);
}

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE op_a, CBLAS_TRANSPOSE op_b, blasint m,
                 blasint n, blasint k, float alpha, const float* a, blasint lda, const float* b,
                 blasint ldb, float beta, float* c, blasint ldc) {
  gemm(order == CblasRowMajor, op_a != CblasNoTrans, op_b != CblasNoTrans, m, n, k, alpha, a, lda,
       b, ldb, beta, c, ldc);
}

double cblas_dnrm2(blasint n, const double* x, blasint stride) {
  double sum = 0;
  for (long i = 0; i < n; ++i) sum += x[i * stride] * x[i * stride];
  return std::sqrt(sum);
}

}  // extern "C"
