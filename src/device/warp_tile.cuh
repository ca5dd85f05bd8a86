// Where a warp's lanes work in its tile.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Which of a warp's 4 x 8 thread tiles a lane has. Bit 0 of the lane counts along n, bit 1 along
// m: lanes l and l ^ 1 read the same words of A, l and l ^ 2 the same words of B. Then 16 lanes,
// not 8, share a wavefront of a 128-bit load, of A and of B. Taught in v11.
GEMM_DEVICE int lane_m(int lane) { return lane >> 1 & 3; }
GEMM_DEVICE int lane_n(int lane) { return (lane & 1) | lane >> 3 << 1; }

GEMM_BUILD_NAMESPACE_END
