// v9 cuBLAS: the library as a rung, to measure the others by.
//
// before: v8 is as far as one idea at a time has come on CUDA cores.
// idea:   cuBLAS is column-major. A row-major matrix read column by column is its transpose, so
//         row-major C = A B is column-major C' = B' A'. The operands change places, M and N too,
//         and nothing is copied or transposed.
// watch:  The compute type decides: 32F accumulates halves in float and keeps floats off the tensor
//         cores; FAST_TF32 puts floats on them. cuBLASLt's best of up to 32 heuristics is timed,
//         too. The better of the two libraries is everyone's baseline.
// needs:  Any GPU runs it. In the simulator OpenBLAS answers the call.
#include "device/blas.h"
#include "rung.h"

namespace {
using namespace gemm;

cudaDataType_t type(const float*) { return CUDA_R_32F; }
cudaDataType_t type(const half*) { return CUDA_R_16F; }
cudaDataType_t type(const bf16*) { return CUDA_R_16BF; }

template <class T, cublasComputeType_t COMPUTE, class TC = T>
void launch(const GemmArgs<T, T, TC>& p, Stream stream) {
  const auto op = [](Op o) { return o == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T; };
  // cuBLAS refuses a leading dimension of 0, even of nothing.
  const auto ld = [](int64_t x) { return x > 0 ? x : 1; };
  // [region idea]
  blas_check(cublasGemmEx_64(blas_handle(stream), op(p.op_b), op(p.op_a), p.N, p.M, p.K,
                             &p.epilogue.alpha,  //
                             p.B, type(p.B), ld(p.ldb), p.A, type(p.A), ld(p.lda),
                             &p.epilogue.beta,  //
                             p.C, type(p.C), ld(p.ldc), COMPUTE, CUBLAS_GEMM_DEFAULT));
  // [/region idea]
}

const Registration rung({.prev = "v8",
                         .idea = "cuBLAS: row-major through the column-major API",
                         .needs = {.transposed = true, .no_activation = true},
                         .rounds_products = true},
                        {f32(launch<float, CUBLAS_COMPUTE_32F>),
                         f16(launch<half, CUBLAS_COMPUTE_32F>),
                         bfloat16(launch<bf16, CUBLAS_COMPUTE_32F>),
                         tf32(launch<float, CUBLAS_COMPUTE_32F_FAST_TF32>),
                         entry(DType::f16_f32, launch<half, CUBLAS_COMPUTE_32F, float>),
                         entry(DType::bf16_f32, launch<bf16, CUBLAS_COMPUTE_32F, float>)});

}  // namespace
