// The host's half of TMA: describes a matrix and the box that one load or store moves, for the
// instructions in device/ptx/tma.cuh.
//
//   const TensorMap map = tensor_map(p.A, p.M, p.K, p.lda, BM, 64, Swizzle::b128);
//   launch(kernel, ..., map);                 // kernel(const __grid_constant__ TensorMap map, ...)
#pragma once

#include "device/tensor_map.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Whether TMA can address these rows: base and rows at multiples of 16 bytes.
template <class T>
bool tma_can_address(const T* base, int64_t ld) {
  return reinterpret_cast<uintptr_t>(base) % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

// How many matrices lie `stride` elements apart, for a tensor map of rank 3. None: rank 2. Where all
// are the same one, `stride` is 0, and the map has one.
struct MatrixBatch {
  int count = 0;
  int64_t stride = 0;
};

// The rows x cols matrix at `base`, row-major, `ld` elements from row to row, in boxes of box_rows
// x box_cols elements; T is half, bf16, float or FP8. A box lies in shared memory row after row,
// swizzled by `swizzle`, and is then exactly one span wide. Loads fill with zeros what lies
// outside of the matrix; stores leave it out, up to 16 bytes (tma_store). A matrix without
// elements gives a map that must not be used. What is not in L2 comes from memory in aligned pieces
// of `fetch` bytes, 128 or 256 (the hardware's "L2 promotion"): 256 where the other half is needed
// soon. Throws as encode_tensor_map. Taught in v17t.
template <class T>
TensorMap tensor_map(const T* base, int64_t rows, int64_t cols, int64_t ld, int box_rows,
                     int box_cols, Swizzle swizzle, int fetch = 256, MatrixBatch batch = {}) {
  const int64_t row_bytes = ld * int64_t{sizeof(T)};
  const bool same = batch.stride == 0;  // one matrix, at a stride that nobody uses
  return encode_tensor_map<T>(
      {.base = base,
       .sizes = {cols, rows},
       .row_bytes = row_bytes,
       .box = {box_cols, box_rows},
       .swizzle = swizzle,
       .l2_promotion = fetch,
       .matrices = batch.count > 0 && same ? 1 : batch.count,
       .matrix_bytes = same ? row_bytes : batch.stride * int64_t{sizeof(T)}});
}

GEMM_BUILD_NAMESPACE_END
