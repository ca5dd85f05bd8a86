// CUDA as a user's own file finds it in the simulator: what sim/cuda.h has, and of the runtime's API
// what a gemm calls. Kernels of the ladder do without.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <tuple>
#include <vector>

#include "device/platform.h"
#include "own/launch.h"

// The file's own words stand for them (own/source.cpp), as it may have variables of these names.
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// Arrays lie as a GPU packs them, where sizes are whole 16 bytes: files rely on it for float4.
#undef __shared__
#define __shared__ __attribute__((aligned(16))) constinit static thread_local

// More threads than a block has are an alignment that GCC refuses; own/build.cpp words it.
#undef __launch_bounds__
#define __launch_bounds__(threads, ...) __attribute__((aligned((threads) <= 1024 ? 16 : -1)))

#define __constant__
#define __managed__
#define CUDART_VERSION 13000

inline constexpr int warpSize = 32;

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;

namespace gemm::own {

// What kernel<<<grid, block, smem, stream>>>(...) becomes.
class Launch {
 public:
  Launch(dim3 grid, dim3 block, size_t smem = 0, cudaStream_t stream = nullptr)
      : grid_(grid), block_(block), smem_(smem), stream_(stream) {}
  template <class Kernel, class... Args>
  void call(Kernel kernel, Args... args) const {
    (check_argument(args), ...);
    auto body = [&] { kernel(args...); };
    launch(
        grid_, block_, smem_, stream_, [](void* b) { (*static_cast<decltype(body)*>(b))(); },
        &body);
  }

 private:
  dim3 grid_, block_;
  size_t smem_;
  cudaStream_t stream_;
};

GEMM_SIM_INLINE void* dynamic_shared() { return sim::dynamic_shared(); }
// extern __shared__ T name[] outside of a function.
template <class T>
struct DynamicShared {
  GEMM_SIM_INLINE operator T*() const { return static_cast<T*>(dynamic_shared()); }
  template <class U>
  GEMM_SIM_INLINE explicit operator U*() const {
    return static_cast<U*>(dynamic_shared());
  }
};

// mma.sync as inline PTX, D = A * B + C. ORDER: which operands its text names for D, A, B and C.
template <auto MMA, int... ORDER, class... Operands>
GEMM_SIM_INLINE void mma(std::source_location where, Operands&&... operands) {
  const auto all = std::forward_as_tuple(operands...);
  constexpr int AT[] = {ORDER...};
  float d[] = {std::get<AT[10]>(all), std::get<AT[11]>(all), std::get<AT[12]>(all),
               std::get<AT[13]>(all)};
  const uint32_t a[] = {std::get<AT[4]>(all), std::get<AT[5]>(all), std::get<AT[6]>(all),
                        std::get<AT[7]>(all)};
  const uint32_t b[] = {std::get<AT[8]>(all), std::get<AT[9]>(all)};
  MMA(d, a, b, where);
  std::get<AT[0]>(all) = d[0], std::get<AT[1]>(all) = d[1];
  std::get<AT[2]>(all) = d[2], std::get<AT[3]>(all) = d[3];
}

}  // namespace gemm::own

// Math -------------------------------------------------------------------------------------------

template <class A, class B>
GEMM_SIM_INLINE constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
GEMM_SIM_INLINE constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
GEMM_SIM_INLINE float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
GEMM_SIM_INLINE float __fadd_rn(float a, float b) { return a + b; }
GEMM_SIM_INLINE float __fmul_rn(float a, float b) { return a * b; }
GEMM_SIM_INLINE float __fdividef(float a, float b) { return a / b; }
GEMM_SIM_INLINE int __float_as_int(float x) { return std::bit_cast<int>(x); }
GEMM_SIM_INLINE unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
GEMM_SIM_INLINE float __int_as_float(int x) { return std::bit_cast<float>(x); }
GEMM_SIM_INLINE float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
GEMM_SIM_INLINE int __popc(unsigned x) { return std::popcount(x); }
GEMM_SIM_INLINE int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
template <class T>
GEMM_SIM_INLINE T __ldcg(const T* p) {
  return *p;
}
template <class T>
GEMM_SIM_INLINE T __ldcs(const T* p) {
  return *p;
}
template <class T>
GEMM_SIM_INLINE void __stcs(T* p, T x) {
  *p = x;
}
template <class T>
GEMM_SIM_INLINE void __stcg(T* p, T x) {
  *p = x;
}

struct float3 {
  float x, y, z;
};
struct int3 {
  int x, y, z;
};

// Half and bfloat16 ------------------------------------------------------------------------------

// As CUDA's: made of a float without a word, and every operation rounds to the type.
struct __half : gemm::half {
  __half() = default;
  GEMM_SIM_INLINE __half(float x) : gemm::half(x) {}
  GEMM_SIM_INLINE __half(double x) : gemm::half(static_cast<float>(x)) {}
  GEMM_SIM_INLINE __half(int x) : gemm::half(static_cast<float>(x)) {}
};
struct __nv_bfloat16 : gemm::bf16 {
  __nv_bfloat16() = default;
  GEMM_SIM_INLINE __nv_bfloat16(float x) : gemm::bf16(x) {}
  GEMM_SIM_INLINE __nv_bfloat16(double x) : gemm::bf16(static_cast<float>(x)) {}
  GEMM_SIM_INLINE __nv_bfloat16(int x) : gemm::bf16(static_cast<float>(x)) {}
};
using half = __half;
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __half2 {
  __half x, y;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using half2 = __half2;
using nv_bfloat162 = __nv_bfloat162;

#define GEMM_OWN_OPERATORS(T, T2)                                                            \
  GEMM_SIM_INLINE T operator+(T a, T b) { return float(a) + float(b); }                      \
  GEMM_SIM_INLINE T operator-(T a, T b) { return float(a) - float(b); }                      \
  GEMM_SIM_INLINE T operator*(T a, T b) { return float(a) * float(b); }                      \
  GEMM_SIM_INLINE T operator/(T a, T b) { return float(a) / float(b); }                      \
  GEMM_SIM_INLINE T& operator+=(T& a, T b) { return a = a + b; }                             \
  GEMM_SIM_INLINE T& operator-=(T& a, T b) { return a = a - b; }                             \
  GEMM_SIM_INLINE T& operator*=(T& a, T b) { return a = a * b; }                             \
  GEMM_SIM_INLINE T __hadd(T a, T b) { return a + b; }                                       \
  GEMM_SIM_INLINE T __hsub(T a, T b) { return a - b; }                                       \
  GEMM_SIM_INLINE T __hmul(T a, T b) { return a * b; }                                       \
  GEMM_SIM_INLINE T __hfma(T a, T b, T c) { return std::fma(float(a), float(b), float(c)); } \
  GEMM_SIM_INLINE T2 __hadd2(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                  \
  GEMM_SIM_INLINE T2 __hmul2(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                  \
  GEMM_SIM_INLINE T2 __hfma2(T2 a, T2 b, T2 c) {                                             \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                   \
  }
GEMM_OWN_OPERATORS(__half, __half2)
GEMM_OWN_OPERATORS(__nv_bfloat16, __nv_bfloat162)
#undef GEMM_OWN_OPERATORS

GEMM_SIM_INLINE __half __float2half(float x) { return x; }
GEMM_SIM_INLINE __half __float2half_rn(float x) { return x; }
GEMM_SIM_INLINE float __half2float(__half x) { return x; }
GEMM_SIM_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
GEMM_SIM_INLINE short __half_as_short(__half x) { return std::bit_cast<short>(x.bits); }
GEMM_SIM_INLINE __half __ushort_as_half(unsigned short x) { return std::bit_cast<__half>(x); }
GEMM_SIM_INLINE __half __short_as_half(short x) { return std::bit_cast<__half>(x); }
GEMM_SIM_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
GEMM_SIM_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
GEMM_SIM_INLINE __half2 __float2half2_rn(float x) { return {x, x}; }
GEMM_SIM_INLINE __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
GEMM_SIM_INLINE float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
GEMM_SIM_INLINE __half __low2half(__half2 v) { return v.x; }
GEMM_SIM_INLINE __half __high2half(__half2 v) { return v.y; }
GEMM_SIM_INLINE float __low2float(__half2 v) { return v.x; }
GEMM_SIM_INLINE float __high2float(__half2 v) { return v.y; }
GEMM_SIM_INLINE __nv_bfloat16 __float2bfloat16(float x) { return x; }
GEMM_SIM_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
GEMM_SIM_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
GEMM_SIM_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return std::bit_cast<short>(x.bits); }
GEMM_SIM_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  return std::bit_cast<__nv_bfloat16>(x);
}
GEMM_SIM_INLINE __nv_bfloat16 __short_as_bfloat16(short x) {
  return std::bit_cast<__nv_bfloat16>(x);
}
GEMM_SIM_INLINE float __bfloat162float(__nv_bfloat16 x) { return x; }
GEMM_SIM_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
GEMM_SIM_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }

// The runtime's API ------------------------------------------------------------------------------

// Calls succeed, or throw what the simulator has to say.
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1 };
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMultiProcessorCount = 16
};
// Few SMs, so that a persistent kernel's blocks have several tiles each of a small problem.
struct cudaDeviceProp {
  char name[256] = "simulator";
  int major = 9, minor = 0, multiProcessorCount = 4, warpSize = 32;
  size_t sharedMemPerBlock = 48 * 1024, sharedMemPerBlockOptin = 227 * 1024,
         sharedMemPerMultiprocessor = 228 * 1024;
  int maxThreadsPerBlock = 1024, regsPerBlock = 65536;
};

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaSuccess"; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) { return *p = {}, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int) {
  *value = a == cudaDevAttrMultiProcessorCount ? cudaDeviceProp{}.multiProcessorCount : 227 * 1024;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute a, int value) {
  if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) gemm::own::allow_shared(value);
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetCacheConfig(Kernel, cudaFuncCache) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
  *p = static_cast<T*>(gemm::sim::runtime::workspace_allocate(bytes));
  gemm::own::note_memory(*p, false);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t) {
  return cudaMalloc(p, bytes);
}
inline cudaError_t cudaFree(void* p) {
  if (p != nullptr) gemm::sim::runtime::workspace_release(p, nullptr);
  gemm::own::note_memory(p, true);
  return cudaSuccess;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t = nullptr) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return std::memset(p, value, bytes), cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t = nullptr) {
  return cudaMemset(p, value, bytes);
}
// A stream of the file's own: no call's.
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  static char other;
  *stream = reinterpret_cast<cudaStream_t>(&other);
  return cudaSuccess;
}
constexpr unsigned cudaStreamNonBlocking = 1;
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
