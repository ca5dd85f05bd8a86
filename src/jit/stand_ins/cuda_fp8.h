// For NVRTC: FP8 has names alone. The tile layer has no kernel of it.
#pragma once
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;
