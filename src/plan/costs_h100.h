// What the kernels' choices cost on an H100: an H200's, but for what was measured on an H100.
#pragma once

#include <algorithm>
#include <array>

#include "plan/costs_h200.h"

namespace gemm {

constexpr Costs H100_COSTS = [] {
  Costs costs = H200_COSTS;
  // Read off the layers' products at M = 256 to 8192, all kernels in pairs with cuBLAS.
  costs.whole[0].cost = 0.96;
  costs.whole[1].cost = 0.95;
  costs.whole[2].cost = 1.26;
  costs.stream_k[0].cost = 0.96;
  costs.row_panels[2] = 0.92;
  costs.wide_panels = 0.92;
  std::ranges::copy(std::array{1.07, 0.95, 1.06, 1.1, 0.97, 0.99}, costs.column_panels);
  costs.column_epilogue_k = 60;
  costs.rows_of_pass = 1024;
  costs.wgmma = {
      // [fitted]
      .tensor = 11.86,
      .narrow = 9.501,
      .memory = 3.653,
      .l2 = 9.043,
      .fetch = 0.1103,
      .uneven = 0.5971,
      .launch = 2.861,
      .wave = 2.221,
      .cluster = 0.9996,
      .store = 287.3,
      .send = 49.99,
      .fixup = 1.1,
      .exchange = 119.9,
      .add = 289.8,
      .persistent_launch = 2.765,
      .epilogue_k = 109.7,
      // [/fitted]
      // Not measured there.
      .clusters = {},
      .alone = H200_COSTS.wgmma.alone,
      .part = H200_COSTS.wgmma.part,
      .reduce = H200_COSTS.wgmma.reduce,
      .multicast = H200_COSTS.wgmma.multicast,
  };
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  return costs;
}();

}  // namespace gemm
