// Values of a call as template arguments of its kernels.
#pragma once

#include <type_traits>

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether the build has a sample of the GPU's kernels, which nobody launches (CMakeLists.txt).
// A sample compiles, where something is chosen for a call, what most calls want.
#if GEMM_GPU_SAMPLE
constexpr bool IS_SAMPLE = true;
#else
constexpr bool IS_SAMPLE = false;
#endif

// Calls f with `value` as a constant, f(yes): yes() is the value. A sample has `true` alone.
template <class F>
void with_constant(bool value, F&& f) {
  if (IS_SAMPLE || value)
    f(std::true_type{});
  else if constexpr (!IS_SAMPLE)
    f(std::false_type{});
}

GEMM_BUILD_NAMESPACE_END
