// The one cuBLAS call that a rung makes, for the simulator: the same column-major interface,
// answered by OpenBLAS on the CPU. Only what kernels use. Included by device/blas.h in the simulator's
// builds; never beside the real cublas_v2.h. Compiled once for the plain and the traced rungs.
#pragma once

#include <cstdint>

#include "device/platform.h"

namespace gemm::sim::blas {

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cudaDataType_t { CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_32F,
  CUBLAS_COMPUTE_32F_PEDANTIC,
  CUBLAS_COMPUTE_32F_FAST_TF32
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT };
struct cublasHandle_t {
  void* stream;
};

GEMM_SIM_INLINE cublasHandle_t blas_handle(void* stream) { return {stream}; }
GEMM_SIM_INLINE void blas_check(cublasStatus_t) {}

// C = alpha * op(A) * op(B) + beta * C, column-major, as cuBLAS documents it; both inputs of
// the same type. A half or bf16 is multiplied as the float it stands for, and C is rounded once. FAST_TF32
// rounds nothing here: OpenBLAS has no such unit. On a stream of sim::Devices it runs in the stream's
// order, else at once.
cublasStatus_t cublasGemmEx_64(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b,
                               int64_t m, int64_t n, int64_t k, const float* alpha, const void* a,
                               cudaDataType_t type_a, int64_t lda, const void* b,
                               cudaDataType_t type_b, int64_t ldb, const float* beta, void* c,
                               cudaDataType_t type_c, int64_t ldc, cublasComputeType_t,
                               cublasGemmAlgo_t);

}  // namespace gemm::sim::blas

GEMM_BUILD_NAMESPACE_BEGIN
using namespace sim::blas;
GEMM_BUILD_NAMESPACE_END
