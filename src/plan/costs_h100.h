// What the kernels' choices cost on an H100: an H200's, but for what was measured on an H100.
#pragma once

#include "plan/costs_h200.h"

namespace gemm {

constexpr Costs H100_COSTS = [] {
  Costs costs = H200_COSTS;
  // By four rungs' times at 258 shapes: plots/NOTES.md.
  costs.engine.memory = 3.5;
  costs.engine.l2 *= 0.9;
  costs.engine.copies = 2.155;
  return costs;
}();

}  // namespace gemm
