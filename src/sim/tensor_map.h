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
  // How many matrices a map of rank 3 has, and from one to the next. 0: rank 2, one matrix.
  int64_t matrices = 0, matrix_bytes = 0;
};

// The map, of rank 2, of one matrix of a map of rank 3. Of another rank, or beyond the last matrix,
// the result is of no elements, and loads and stores diagnose it.
inline TensorMap matrix_of_batch(const TensorMap& map, int64_t index) {
  TensorMap one = map;
  if (index < 0 || index >= map.matrices) return {};
  one.base = static_cast<char*>(map.base) + index * map.matrix_bytes;
  one.matrices = 0;
  return one;
}

}  // namespace gemm::sim
