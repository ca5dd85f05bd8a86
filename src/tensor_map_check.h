// What TMA can describe (CUDA driver API, cuTensorMapEncodeTiled), for device/tensor_map.h.
#pragma once

#include <cstdint>

namespace gemm {

// A matrix of `element`-byte elements, its rows `row_bytes` bytes apart, in boxes; `span`: of the
// swizzle, in bytes, 16 for none. Throws std::invalid_argument, naming what is allowed. Out of
// line, so that traced kernels share no function with others.
void check_tensor_map(const void* base, int64_t rows, int64_t cols, int64_t row_bytes, int element,
                      int box_rows, int box_cols, int span);

// Throws std::runtime_error: the driver refuses with this CUresult; 0: it lacks the function.
[[noreturn]] void fail_tensor_map(int result);

}  // namespace gemm
