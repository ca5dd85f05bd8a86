// The host's half of TMA: describes a matrix and the box that one load or store moves, for the
// instructions in device/ptx/tma.cuh.
//
//   const TensorMap map = tensor_map(p.A, p.M, p.K, p.lda, BM, 64, Swizzle::b128);
//   launch(kernel, ..., map);                 // kernel(const __grid_constant__ TensorMap map, ...)
#pragma once

#include <type_traits>

#include "device/ptx/tma.cuh"
#include "device/swizzle.cuh"
#include "tensor_map_check.h"
#if GEMM_ON_GPU
#include <cuda.h>  // types only: the one function is asked of the driver, so nothing links libcuda
#endif

GEMM_BUILD_NAMESPACE_BEGIN

// Whether TMA can address these rows: base and rows at multiples of 16 bytes.
template <class T>
bool tma_can_address(const T* base, int64_t ld) {
  return reinterpret_cast<uintptr_t>(base) % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

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

// The rows x cols matrix at `base`, row-major, `ld` elements from row to row, in boxes of box_rows
// x box_cols elements; T is half, bf16 or float. A box lies in shared memory row after row,
// swizzled by `swizzle`, and is then exactly one span wide. Loads fill with zeros what lies
// outside of the matrix; stores leave it out, up to 16 bytes (tma_store). A matrix without
// elements gives a map that must not be used. What is not in L2 comes from memory in aligned pieces
// of `fetch` bytes, 128 or 256 (the hardware's "L2 promotion"): 256 where the other half is needed
// soon. Throws std::invalid_argument for what TMA cannot do, std::runtime_error when the driver
// refuses.
template <class T>
TensorMap tensor_map(const T* base, int64_t rows, int64_t cols, int64_t ld, int box_rows,
                     int box_cols, Swizzle swizzle, int fetch = 256) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16> || std::is_same_v<T, float>);
  const int64_t row_bytes = ld * int64_t{sizeof(T)};
  check_tensor_map(base, rows, cols, row_bytes, sizeof(T), box_rows, box_cols,
                   static_cast<int>(swizzle));
  TensorMap map{};
  if (rows == 0 || cols == 0) return map;
#if GEMM_ON_GPU
  static_assert(sizeof map == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  const cuuint64_t sizes[2] = {cuuint64_t(cols), cuuint64_t(rows)};
  const cuuint64_t strides[1] = {cuuint64_t(row_bytes)};
  const cuuint32_t box[2] = {cuuint32_t(box_cols), cuuint32_t(box_rows)}, steps[2] = {1, 1};
  const CUresult result = tensor_map_encoder()(
      reinterpret_cast<CUtensorMap*>(&map),
      std::is_same_v<T, half>   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
      : std::is_same_v<T, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      2, const_cast<T*>(base), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle == Swizzle::none  ? CU_TENSOR_MAP_SWIZZLE_NONE
      : swizzle == Swizzle::b32 ? CU_TENSOR_MAP_SWIZZLE_32B
      : swizzle == Swizzle::b64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                : CU_TENSOR_MAP_SWIZZLE_128B,
      fetch == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail_tensor_map(result);
#else
  static_cast<void>(fetch);
  map = {const_cast<T*>(base),     rows, cols, row_bytes, sizeof(T), box_rows, box_cols,
         static_cast<int>(swizzle)};
#endif
  return map;
}

GEMM_BUILD_NAMESPACE_END
