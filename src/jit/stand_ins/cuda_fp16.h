// For NVRTC: half, as far as kernels convert it.
#pragma once
struct alignas(2) __half {
  unsigned short bits;
  __half() = default;
  __device__ __forceinline__ __half(float x) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  }
  __device__ __forceinline__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
struct alignas(4) __half2 {
  unsigned bits;
};
__device__ __forceinline__ __half2 __floats2half2_rn(float lower, float upper) {
  __half2 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair.bits) : "f"(upper), "f"(lower));
  return pair;
}
