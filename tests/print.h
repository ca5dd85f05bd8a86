// What GoogleTest prints for a test's parameter.
#pragma once

#include <ostream>

#include "registry.h"

namespace gemm {
inline void PrintTo(const Rung& rung, std::ostream* out) { *out << rung.name; }
}  // namespace gemm
