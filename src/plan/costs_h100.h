// What the kernels' choices cost on an H100: an H200's, but for what was measured on an H100.
#pragma once

#include <algorithm>

#include "plan/costs_h200.h"

namespace gemm {

constexpr Costs H100_COSTS = [] {
  Costs costs = H200_COSTS;
  costs.wgmma = {
      // [fitted]
      .tensor = 9.436,
      .narrow = 9.436,
      .memory = 3.484,
      .l2 = 8.916,
      .fetch = 0.1158,
      .uneven = 0.3518,
      .launch = 2.584,
      .wave = 2.202,
      .cluster = 0.6411,
      .store = 170.9,
      .send = 45.72,
      .fixup = 0.8653,
      .exchange = 149.6,
      .add = 268.6,
      // [/fitted]
      // All of these, and an H200's of the same names, are fitted to what 12 rungs take at 1000
      // shapes on H100s: plots/NOTES.md. An H200's own are in the ratios of an earlier fit.
      .clusters = {},
      .sectors = H200_COSTS.wgmma.sectors,
      .half = H200_COSTS.wgmma.half,
      .stream_memory = 0.9072,
      .part = 0.3116,
  };
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  // By four rungs' times at 258 shapes: plots/NOTES.md.
  costs.engine.memory = 3.5;
  costs.engine.l2 *= 0.9;
  costs.engine.copies = 2.155;
  return costs;
}();

}  // namespace gemm
