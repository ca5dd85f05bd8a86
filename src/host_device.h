// What a function of the GPU's code and of the host's is declared with.
#pragma once

#ifdef __CUDACC__
#define GEMM_HOST_DEVICE __host__ __device__
// Inlined wherever it is called: copies of different builds never mix.
#define GEMM_INLINE_ANYWHERE __host__ __device__ __forceinline__
#else
#define GEMM_HOST_DEVICE
#define GEMM_INLINE_ANYWHERE inline __attribute__((always_inline))
#endif

// Before a loop in such a function.
#ifdef __CUDA_ARCH__
#define GEMM_UNROLL _Pragma("unroll")
#else
#define GEMM_UNROLL
#endif
