// A transposed copy of a matrix, for a main loop that reads rows along n.
#pragma once

#include "device/ptx/grid.cuh"
#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A tile of 32 x 32 a CTA, by way of shared memory: a warp reads a row of 32, and writes another.
constexpr int TRANSPOSE_TILE = 32, TRANSPOSE_WARPS = 8;
__global__ void __launch_bounds__(32 * TRANSPOSE_WARPS)
    transpose_kernel(const float* __restrict__ from, int64_t ld, int rows, int cols,
                     float* __restrict__ to, int64_t to_ld) {
  constexpr int TILE = TRANSPOSE_TILE;
  __shared__ float tile[TILE][TILE + 1];  // a column's elements in different banks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tiles = cdiv(cols, TILE);
  const int row0 = blockIdx.x / tiles * TILE, col0 = blockIdx.x % tiles * TILE;
#pragma unroll
  for (int r = warp; r < TILE; r += TRANSPOSE_WARPS)
    tile[r][lane] =
        row0 + r < rows && col0 + lane < cols ? from[(row0 + r) * ld + col0 + lane] : 0.0f;
  __syncthreads();
#pragma unroll
  for (int c = warp; c < TILE; c += TRANSPOSE_WARPS)
    if (col0 + c < cols) to[(col0 + c) * to_ld + row0 + lane] = tile[lane][c];
}

// The transpose of a matrix of rows x cols, in rows of whole cache lines padded with zeros; nothing
// where it is not `wanted`. Must live until the kernels that read it have been launched. Throws as
// Workspace.
class TransposedCopy {
  const Workspace copy_;

 public:
  const int64_t ld;
  TransposedCopy(const float* from, int64_t from_ld, int rows, int cols, bool wanted, Stream stream)
      : copy_(wanted ? sizeof(float) * cols * cdiv(rows, TRANSPOSE_TILE) * TRANSPOSE_TILE : 0,
              stream),
        ld(int64_t{cdiv(rows, TRANSPOSE_TILE)} * TRANSPOSE_TILE) {
    const int64_t tiles = int64_t{cdiv(rows, TRANSPOSE_TILE)} * cdiv(cols, TRANSPOSE_TILE);
    gemm::launch(transpose_kernel, wanted ? tiles : 0, dim3(32 * TRANSPOSE_WARPS), {}, stream, from,
                 from_ld, rows, cols, copy_.as<float>(), ld);
  }
  const float* data() const { return copy_.as<float>(); }
};

GEMM_BUILD_NAMESPACE_END
