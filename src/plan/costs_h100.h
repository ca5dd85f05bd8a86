// What the kernels' choices cost on an H100: an H200's, but for what was measured on an H100.
#pragma once

#include <algorithm>

#include "plan/costs_h200.h"

namespace gemm {

constexpr Costs H100_COSTS = [] {
  Costs costs = H200_COSTS;
  costs.wgmma = {
      // [fitted]
      .tensor = 11.87,
      .narrow = 9.501,
      .memory = 3.679,
      .l2 = 8.995,
      .fetch = 0.1094,
      .uneven = 0.5974,
      .launch = 2.869,
      .wave = 2.221,
      .cluster = 0.4604,
      .store = 287.4,
      .send = 35.64,
      .fixup = 2.499,
      .persistent_launch = 2.762,
      .epilogue_k = 109.7,
      // [/fitted]
      .clusters = {},
  };
  // How clusters fill GPCs was not measured there.
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  return costs;
}();

}  // namespace gemm
