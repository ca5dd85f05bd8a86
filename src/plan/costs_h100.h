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
  for (Costs::Tile& tile : costs.cluster) tile.cost *= 0.96;
  for (Costs::Tile& tile : costs.cluster) tile.cost *= 0.96;
  for (Costs::Tile& tile : costs.cluster) tile.cost *= 0.96;
  costs.row_panels[2] = 0.92;
  std::ranges::copy(std::array{1.07, 0.95, 1.06, 1.1, 0.97, 0.99}, costs.column_panels);
  costs.column_epilogue_k = 60;
  costs.rows_of_pass = 1024;
  costs.wgmma = {
      // [fitted]
      .tensor = 10.78,
      .narrow = 8.919,
      .memory = 3.813,
      .l2 = 8.098,
      .fetch = 0.1056,
      .uneven = 0.5464,
      .launch = 2.259,
      .wave = 2.004,
      .cluster = 0.5979,
      .store = 215.7,
      .send = 53.32,
      .fixup = 0.8471,
      .exchange = 233.9,
      .add = 334.4,
      .persistent_launch = 2.279,
      .epilogue_k = 270,
      // [/fitted]
      // Not measured there.
      .clusters = {},
      .sectors = H200_COSTS.wgmma.sectors,
      .half = H200_COSTS.wgmma.half,
      .stream_memory = H200_COSTS.wgmma.stream_memory,
      .apart = H200_COSTS.wgmma.apart,
      .alone = H200_COSTS.wgmma.alone,
      .part = H200_COSTS.wgmma.part,
      .reduce = H200_COSTS.wgmma.reduce,
      .copies = H200_COSTS.wgmma.copies,
      .multicast = H200_COSTS.wgmma.multicast,
  };
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  return costs;
}();

}  // namespace gemm
