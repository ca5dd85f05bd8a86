// cuda_fp8.h's conversions on the host, for the test of the simulator's: in a file of their own,
// because both define CUDA's vector types.
#include <cuda_fp8.h>

#include <cstdint>

uint8_t cuda_fp8_of(bool e5m2, float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, e5m2 ? __NV_E5M2 : __NV_E4M3);
}
float cuda_value_of(bool e5m2, uint8_t bits) {
  const __half_raw h = __nv_cvt_fp8_to_halfraw(bits, e5m2 ? __NV_E5M2 : __NV_E4M3);
  return static_cast<float>(__half(h));
}
