// The tensor map: what TMA is told of a matrix, field by field.
#pragma once

#include <type_traits>

#include "device/ptx/tma.cuh"
#include "device/swizzle.cuh"
#include "tensor_map_check.h"
#if GEMM_ON_GPU
#include <cuda.h>  // types only: the one function is asked of the driver, so nothing links libcuda
#endif

GEMM_BUILD_NAMESPACE_BEGIN

// The fields of a matrix's tensor map; T is half, bf16, float or FP8. Each names the argument of
// cuTensorMapEncodeTiled that it becomes. What no rung changes is not here: every element
// (elementStrides 1), no interleave, and zeros for what lies outside of the matrix (oobFill).
template <class T>
struct TensorMapFields {
  const T* base;           // globalAddress: element (0, 0), at a multiple of 16 bytes
  int64_t sizes[2];        // globalDim: columns, rows; the index that runs along memory is first
  int64_t row_bytes;       // globalStrides: from row to row, a multiple of 16
  int box[2];              // boxDim: columns, rows that one instruction moves; at most 256 each
  Swizzle swizzle;         // swizzle: of the box in shared memory, its span being a box's row
  int l2_promotion = 256;  // l2Promotion: bytes that L2 fetches from memory together, 128 or 256
  // The third dimension, of a batch: globalDim and globalStrides, with a box of one matrix. 0: the
  // map has rank 2, and is of one matrix.
  int64_t matrices = 0, matrix_bytes = 0;
};

#if GEMM_ON_GPU
// cuTensorMapEncodeTiled. Throws std::runtime_error where the driver has none.
inline auto tensor_map_encoder() {
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                               12000, cudaEnableDefault, &result);
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) fail_tensor_map(0);
    return reinterpret_cast<Encode>(found);
  }();
  return encode;
}
#endif

// The map of these fields. A matrix without elements gives a map that must not be used. Throws
// std::invalid_argument for what TMA cannot do, std::runtime_error when the driver refuses.
template <class T>
TensorMap encode_tensor_map(const TensorMapFields<T>& f) {
  constexpr bool FP8 = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;
  static_assert(FP8 || std::is_same_v<T, half> || std::is_same_v<T, bf16> ||
                std::is_same_v<T, float>);
  const auto [cols, rows] = f.sizes;
  const auto [box_cols, box_rows] = f.box;
  check_tensor_map(f.base, rows, cols, f.row_bytes, sizeof(T), box_rows, box_cols,
                   static_cast<int>(f.swizzle));
  TensorMap map{};
  if (rows == 0 || cols == 0) return map;
  // A batch, seen from afar, is a matrix with a row for each of its matrices, of 16 bytes or more.
  if (f.matrices > 0)
    check_tensor_map(f.base, f.matrices, 16 / sizeof(T), f.matrix_bytes, sizeof(T), 1, box_cols,
                     static_cast<int>(f.swizzle));
#if GEMM_ON_GPU
  static_assert(sizeof map == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  const cuuint64_t sizes[3] = {cuuint64_t(cols), cuuint64_t(rows), cuuint64_t(f.matrices)};
  const cuuint64_t strides[2] = {cuuint64_t(f.row_bytes), cuuint64_t(f.matrix_bytes)};
  const cuuint32_t box[3] = {cuuint32_t(box_cols), cuuint32_t(box_rows), 1}, steps[3] = {1, 1, 1};
  const CUresult result =
      tensor_map_encoder()(reinterpret_cast<CUtensorMap*>(&map),
                           FP8                       ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                           : std::is_same_v<T, half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                           : std::is_same_v<T, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                     : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                           f.matrices > 0 ? 3 : 2, const_cast<T*>(f.base), sizes, strides, box,
                           steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                           f.swizzle == Swizzle::none  ? CU_TENSOR_MAP_SWIZZLE_NONE
                           : f.swizzle == Swizzle::b32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : f.swizzle == Swizzle::b64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                       : CU_TENSOR_MAP_SWIZZLE_128B,
                           f.l2_promotion == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                                 : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail_tensor_map(result);
#else
  map = {const_cast<T*>(f.base),
         rows,
         cols,
         f.row_bytes,
         sizeof(T),
         box_rows,
         box_cols,
         static_cast<int>(f.swizzle),
         f.matrices,
         f.matrix_bytes};
#endif
  return map;
}

GEMM_BUILD_NAMESPACE_END
