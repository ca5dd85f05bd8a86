// One source, two machines. Under nvcc this header is CUDA itself; under a host compiler it is the
// simulator's stand-in for CUDA (src/sim/cuda.h). Everything that a kernel can inline lives in an
// inline namespace named after the build, so that the GPU's and the simulator's versions of one
// function can be linked into one program without breaking the one-definition rule.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#define GEMM_ON_GPU 1
#define GEMM_BUILD gpu
#else
#define GEMM_ON_GPU 0
#ifdef GEMM_SIM_TRACED
#define GEMM_BUILD sim_traced
#else
#define GEMM_BUILD sim_plain
#endif
#include "sim/cuda.h"
#endif

#define GEMM_BUILD_NAMESPACE_BEGIN \
  namespace gemm {                 \
  inline namespace GEMM_BUILD {
#define GEMM_BUILD_NAMESPACE_END \
  }                              \
  }

// Second types, whose kernels are another type's code, are left out of a sample of the GPU's kernels,
// which nobody runs, and of instrumented kernels, whose counters are the first types'.
#if GEMM_GPU_SAMPLE || defined(GEMM_SIM_TRACED)
#define GEMM_SECOND_TYPES 0
#else
#define GEMM_SECOND_TYPES 1
#endif

// Device functions are always inlined: a call would cost registers on the GPU and blur the
// simulator's source lines.
#define GEMM_DEVICE __device__ __forceinline__

// The simulator names the kernel's line in its diagnoses; a GPU cannot.
#if GEMM_ON_GPU
#define GEMM_CALLER_ARG
#define GEMM_CALLER_PASS
#define GEMM_ONLY_CALLER_ARG  // where it is the only one
#else
#define GEMM_CALLER_ARG , std::source_location where = std::source_location::current()
#define GEMM_CALLER_PASS , where
#define GEMM_ONLY_CALLER_ARG std::source_location where = std::source_location::current()
#endif

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
using half = __half;
using bf16 = __nv_bfloat16;
using f8e4m3 = __nv_fp8_e4m3;
using f8e5m2 = __nv_fp8_e5m2;
using Stream = cudaStream_t;
#else
using half = sim::half;
using bf16 = sim::bf16;
using f8e4m3 = sim::f8e4m3;
using f8e5m2 = sim::f8e5m2;
using Stream = sim::Stream;
#endif

// ceil(a / b) for a >= 0, b > 0, without overflow at a = INT_MAX.
__host__ __device__ constexpr int cdiv(int a, int b) { return a / b + (a % b != 0); }

GEMM_BUILD_NAMESPACE_END
