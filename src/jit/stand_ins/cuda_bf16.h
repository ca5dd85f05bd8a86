// For NVRTC: bf16, as far as kernels convert it.
#pragma once
struct alignas(2) __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __device__ __forceinline__ __nv_bfloat16(float x) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  }
  __device__ __forceinline__ operator float() const {
    return __uint_as_float(unsigned(bits) << 16);
  }
};
struct alignas(4) __nv_bfloat162 {
  unsigned bits;
};
__device__ __forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float lower, float upper) {
  __nv_bfloat162 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair.bits) : "f"(upper), "f"(lower));
  return pair;
}
