// Which index of an operand runs along its rows in memory.
#pragma once

#include "device/platform.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A is M x K and B is N x K here, as wgmma sees them. So a row-major A and a column-major B are
// K-major; a row-major B (K x N) is MN-major. Taught in v17t.
enum class Major { K, MN };

GEMM_BUILD_NAMESPACE_END
