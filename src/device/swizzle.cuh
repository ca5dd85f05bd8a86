// The XOR swizzles that TMA and wgmma apply to shared-memory addresses (PTX ISA, "Swizzling
// modes"): within each group of eight 128-byte lines, the 16-byte chunks of a line change places
// with the line's number, so that eight chunks of one column lie in eight different bank groups.
#pragma once

#include "device/platform.h"

namespace gemm {

// Valued by its span: the bytes of a row of the tile, within which chunks change places. The tile
// repeats the pattern every 8 spans and must start at a multiple of that.
enum class Swizzle { none = 16, b32 = 32, b64 = 64, b128 = 128 };

}  // namespace gemm

GEMM_BUILD_NAMESPACE_BEGIN

// Where the byte at `offset` of the plain tile lies, both from a multiple of 1024 bytes. Its own
// inverse. Bits 4 and up of the offset are XORed with bits 7 and up: three of them with b128, two
// with b64, one with b32.
__host__ __device__ constexpr uint32_t swizzle(Swizzle mode, uint32_t offset) {
  return offset ^ (offset >> 3 & (static_cast<uint32_t>(mode) - 16));
}

// Where in its row the byte `col` of `row` lies, for a tile whose rows are one span.
// Written so that a compiler sees what it depends on: of the row, its last three bits.
__host__ __device__ constexpr uint32_t swizzled_column(Swizzle mode, uint32_t row, uint32_t col) {
  const auto span = static_cast<uint32_t>(mode);
  return col ^ (row * span >> 3 & (span - 16));
}

GEMM_BUILD_NAMESPACE_END
