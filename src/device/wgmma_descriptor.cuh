// The matrix descriptor: how wgmma is told where an operand lies in shared memory.
#pragma once

#include "device/major.h"
#include "device/ptx/wgmma.cuh"
#include "device/swizzle.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// The matrix descriptor of an operand (PTX ISA, "Matrix descriptor"; CuTe's canonical layouts say
// the same). In shared memory an operand is made of panels, one swizzle span wide (16 bytes without
// a swizzle): rows of one span, row after row, swizzled by MODE, as a TMA load with a box of one
// span leaves them. Rows run along MN and panels along K when K-major, else the other way round.
// `panel_bytes` is from one panel to the next; no matter where an operand has only one (K-major: a
// K step is 32 bytes). In units of 16 bytes, the descriptor's fields are:
//   bits 0-13   address: of the operand's first row. With a swizzle a panel starts at a multiple of
//               8 spans; a K step further lies k_step_bytes behind.
//   bits 16-29  leading dimension byte offset: to the next panel. Swizzled K-major: unused, 1.
//   bits 32-45  stride dimension byte offset: to the next 8 rows of a panel.
//               Without a swizzle MN-major exchanges the two.
//   bits 62-63  0 no swizzle, 1 b128, 2 b64, 3 b32
// Taught in v17w.
template <Major MAJOR, Swizzle MODE>
GEMM_DEVICE uint64_t wgmma_descriptor(const void* tile, uint32_t panel_bytes GEMM_CALLER_ARG) {
  constexpr uint32_t EIGHT_ROWS = 8 * static_cast<uint32_t>(MODE);
  constexpr bool PLAIN = MODE == Swizzle::none;
  constexpr uint64_t CODE = PLAIN ? 0 : MODE == Swizzle::b128 ? 1 : MODE == Swizzle::b64 ? 2 : 3;
  uint32_t leading = panel_bytes, stride = EIGHT_ROWS;
  if constexpr (PLAIN && MAJOR == Major::MN) {
    leading = EIGHT_ROWS;
    stride = panel_bytes;
  }
  if constexpr (!PLAIN && MAJOR == Major::K) leading = 1 << 4;
  const uint32_t address = tile_address(tile GEMM_CALLER_PASS);
  const auto field = [](uint32_t bytes) { return uint64_t{(bytes & 0x3FFFF) >> 4}; };
  return field(address) | field(leading) << 16 | field(stride) << 32 | CODE << 62;
}

// From one K step of wgmma to the next, in bytes: within a panel when K-major and swizzled. Add it
// to a descriptor as descriptor + (bytes >> 4).
template <Major MAJOR, Swizzle MODE>
constexpr GEMM_DEVICE uint32_t k_step_bytes(uint32_t panel_bytes) {
  if (MAJOR == Major::MN) return 16 * static_cast<uint32_t>(MODE);  // 16 rows; there is no MN tf32
  return MODE == Swizzle::none ? 2 * panel_bytes : 32;
}

GEMM_BUILD_NAMESPACE_END
