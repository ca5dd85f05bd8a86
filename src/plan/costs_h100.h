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
      .tensor = 11.81,
      .narrow = 9.501,
      .memory = 3.685,
      .l2 = 8.925,
      .fetch = 0.1095,
      .uneven = 0.5966,
      .launch = 2.869,
      .wave = 2.222,
      .cluster = 0.9998,
      .store = 287.4,
      .send = 35.64,
      .fixup = 2.499,
      .exchange = 120.1,
      .add = 290.2,
      .persistent_launch = 2.763,
      .epilogue_k = 109.7,
      // [/fitted]
      .clusters = {},
  };
  // How clusters fill GPCs was not measured there.
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  return costs;
}();

}  // namespace gemm
