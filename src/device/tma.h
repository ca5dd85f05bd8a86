// The host's half of TMA: describes a matrix and the box that one load or store moves, for the
// instructions in device/ptx.cuh.
//
//   const TensorMap map = tensor_map(p.A, p.M, p.K, p.lda, BM, 64, Swizzle::b128);
//   launch(kernel, ..., map);                 // kernel(const __grid_constant__ TensorMap map, ...)
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "device/ptx.cuh"
#include "device/swizzle.cuh"
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
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess)
      throw std::runtime_error("TMA: the driver has no cuTensorMapEncodeTiled (CUDA 12)");
    return reinterpret_cast<Encode>(found);
  }();
  return encode;
}
#endif

// The rows x cols matrix at `base`, row-major, `ld` elements from row to row, in boxes of box_rows
// x box_cols elements; T is half, bf16 or float. A box lies in shared memory row after row, swizzled
// by `swizzle`, and is then exactly one span wide. Loads fill with zeros what lies outside of the
// matrix; stores leave it out. A matrix without elements gives a map that must not be used. Throws
// std::invalid_argument for what TMA cannot do, std::runtime_error when the driver refuses.
template <class T>
TensorMap tensor_map(const T* base, int64_t rows, int64_t cols, int64_t ld, int box_rows,
                     int box_cols, Swizzle swizzle) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16> || std::is_same_v<T, float>);
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("tensor map: " + what);
  };
  const int64_t span = static_cast<int64_t>(swizzle), box_bytes = box_cols * int64_t{sizeof(T)};
  require(rows >= 0 && cols >= 0 && rows <= int64_t{1} << 32 && cols <= int64_t{1} << 32,
          std::to_string(rows) + " x " + std::to_string(cols) + " elements; allowed: 0 to 2^32");
  require(box_rows >= 1 && box_rows <= 256 && box_cols >= 1 && box_cols <= 256,
          "a box of " + std::to_string(box_rows) + " x " + std::to_string(box_cols) +
              " elements; allowed: 1 to 256");
  require(box_bytes % 16 == 0,
          "a box " + std::to_string(box_bytes) + " bytes wide; allowed: multiples of 16");
  require(swizzle == Swizzle::none || box_bytes == span,
          "a box " + std::to_string(box_bytes) + " bytes wide with a swizzle of " +
              std::to_string(span) + "; allowed: that");
  TensorMap map{};
  if (rows == 0 || cols == 0) return map;
  require(ld >= cols, "rows overlap: ld " + std::to_string(ld) + " < " + std::to_string(cols));
  require(tma_can_address(base, ld), "base and rows must lie at multiples of 16 bytes");
#if GEMM_ON_GPU
  static_assert(sizeof map == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
  const cuuint64_t sizes[2] = {cuuint64_t(cols), cuuint64_t(rows)};
  const cuuint64_t row_bytes[1] = {cuuint64_t(ld) * sizeof(T)};
  const cuuint32_t box[2] = {cuuint32_t(box_cols), cuuint32_t(box_rows)}, steps[2] = {1, 1};
  const CUresult result = tensor_map_encoder()(
      reinterpret_cast<CUtensorMap*>(&map),
      std::is_same_v<T, half>   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
      : std::is_same_v<T, bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      2, const_cast<T*>(base), sizes, row_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle == Swizzle::none  ? CU_TENSOR_MAP_SWIZZLE_NONE
      : swizzle == Swizzle::b32 ? CU_TENSOR_MAP_SWIZZLE_32B
      : swizzle == Swizzle::b64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("cuTensorMapEncodeTiled: error " + std::to_string(result));
#else
  map = {const_cast<T*>(base),  rows, cols, ld * int64_t{sizeof(T)}, sizeof(T), box_rows, box_cols,
         static_cast<int>(span)};
#endif
  return map;
}

GEMM_BUILD_NAMESPACE_END
