#include "tensor_map_check.h"

#include <fmt/format.h>

#include <stdexcept>

namespace gemm {

void check_tensor_map(const void* base, int64_t rows, int64_t cols, int64_t row_bytes, int element,
                      int box_rows, int box_cols, int span) {
  constexpr int64_t MAX_SIZE = int64_t{1} << 32;
  constexpr int MAX_BOX = 256;
  const auto fail = [](const std::string& what) {
    throw std::invalid_argument("tensor map: " + what);
  };
  const int box_bytes = box_cols * element;
  if (rows < 0 || cols < 0 || rows > MAX_SIZE || cols > MAX_SIZE)
    fail(fmt::format("{} x {} elements; allowed: 0 to 2^32 each", rows, cols));
  if (box_rows < 1 || box_rows > MAX_BOX || box_cols < 1 || box_cols > MAX_BOX)
    fail(fmt::format("a box of {} x {} elements; allowed: 1 to {} each", box_rows, box_cols,
                     MAX_BOX));
  if (box_bytes % 16 != 0)
    fail(fmt::format("a box {} bytes wide; allowed: multiples of 16", box_bytes));
  if (span != 16 && box_bytes != span)
    fail(fmt::format("a box {} bytes wide, swizzled; allowed: the swizzle's span of {}", box_bytes,
                     span));
  if (row_bytes < cols * element)
    fail(fmt::format("rows of {} bytes every {}", cols * element, row_bytes));
  if (rows == 0 || cols == 0) return;
  if (reinterpret_cast<uintptr_t>(base) % 16 != 0 || row_bytes % 16 != 0)
    fail(fmt::format("base {} and rows every {} bytes; allowed: multiples of 16", base, row_bytes));
}

void fail_tensor_map(int result) {
  throw std::runtime_error(result == 0
                               ? "TMA: the driver has no cuTensorMapEncodeTiled (CUDA 12)"
                               : fmt::format("cuTensorMapEncodeTiled: CUresult {}", result));
}

}  // namespace gemm
