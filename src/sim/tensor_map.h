// What TMA knows of a matrix in the simulator; made by device/tensor_map.h.
#pragma once

#include <cstdint>

namespace gemm::sim {

struct TensorMap {
  void* base = nullptr;            // element (0, 0)
  int64_t rows = 0, cols = 0;      // 0: there is nothing to load or store
  int64_t row_bytes = 0;           // from one row to the next
  int element = 0;                 // bytes
  int box_rows = 0, box_cols = 0;  // a tile in shared memory
  int span = 16;                   // of its swizzle: 16 (none), 32, 64 or 128 bytes
};

}  // namespace gemm::sim
