// For NVRTC: names of the host's half, in functions that no kernel calls.
#pragma once
#include "device/gemm_args.h"

GEMM_BUILD_NAMESPACE_BEGIN
struct Arch {
  int ctas;
};
Arch current_arch();
int current_device();
template <class... Any>
void launch(const Any&...);
GEMM_BUILD_NAMESPACE_END
