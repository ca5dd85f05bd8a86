#include "sim/blas.h"

#include <cblas.h>

#include <vector>

namespace gemm::sim::blas {
namespace {

// A column-major matrix of halves or bf16 as floats, columns packed.
template <class T>
std::vector<float> to_float(const T* x, int64_t rows, int64_t cols, int64_t ld) {
  std::vector<float> out(rows * cols);
  for (int64_t col = 0; col < cols; ++col)
    for (int64_t row = 0; row < rows; ++row) out[col * rows + row] = float(x[col * ld + row]);
  return out;
}

CBLAS_TRANSPOSE cblas(cublasOperation_t op) {
  return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

// cublasGemmEx of 2-byte elements T.
template <class T, class TC>
void gemm_16(cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
             float alpha, const void* a, int64_t lda, const void* b, int64_t ldb, float beta,
             void* c, int64_t ldc) {
  const int64_t rows_a = op_a == CUBLAS_OP_N ? m : k, rows_b = op_b == CUBLAS_OP_N ? k : n;
  const std::vector<float> fa = to_float(static_cast<const T*>(a), rows_a, m + k - rows_a, lda);
  const std::vector<float> fb = to_float(static_cast<const T*>(b), rows_b, k + n - rows_b, ldb);
  TC* const out = static_cast<TC*>(c);
  std::vector<float> fc = beta == 0 ? std::vector<float>(m * n) : to_float(out, m, n, ldc);
  const auto packed = [](int64_t rows) { return rows > 0 ? rows : 1; };
  cblas_sgemm(CblasColMajor, cblas(op_a), cblas(op_b), m, n, k, alpha, fa.data(), packed(rows_a),
              fb.data(), packed(rows_b), beta, fc.data(), m);
  for (int64_t col = 0; col < n; ++col)
    for (int64_t row = 0; row < m; ++row) out[col * ldc + row] = TC(fc[col * m + row]);
}

// All of the call but its types.
struct Call {
  cublasOperation_t op_a, op_b;
  int64_t m, n, k;
  float alpha;
  const void* a;
  int64_t lda;
  const void* b;
  int64_t ldb;
  float beta;
  void* c;
  int64_t ldc;
};

void run(const Call& x, cudaDataType_t in, cudaDataType_t out) {
  if (in == CUDA_R_32F)
    return cblas_sgemm(CblasColMajor, cblas(x.op_a), cblas(x.op_b), x.m, x.n, x.k, x.alpha,
                       static_cast<const float*>(x.a), x.lda, static_cast<const float*>(x.b), x.ldb,
                       x.beta, static_cast<float*>(x.c), x.ldc);
  const bool narrow = out != CUDA_R_32F;
  const auto gemm = in == CUDA_R_16F ? (narrow ? gemm_16<half, half> : gemm_16<half, float>)
                                     : (narrow ? gemm_16<bf16, bf16> : gemm_16<bf16, float>);
  gemm(x.op_a, x.op_b, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc);
}

}  // namespace

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a,
                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                               const float* alpha, const void* a, cudaDataType_t in, int64_t lda,
                               const void* b, cudaDataType_t, int64_t ldb, const float* beta,
                               void* c, cudaDataType_t out, int64_t ldc, cublasComputeType_t,
                               cublasGemmAlgo_t) {
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const Call call{op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc};
  if (runtime::is_queued(handle.stream))
    runtime::queue_call(handle.stream, [call, in, out] { run(call, in, out); });
  else
    run(call, in, out);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace gemm::sim::blas
