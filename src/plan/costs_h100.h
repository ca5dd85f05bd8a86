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
  costs.row_panels[2] = 0.92;
  std::ranges::copy(std::array{1.07, 0.95, 1.06, 1.1, 0.97, 0.99}, costs.column_panels);
  costs.column_epilogue_k = 60;
  costs.rows_of_pass = 1024;
  costs.wgmma = {
      // [fitted]
      .tensor = 10.33,
      .narrow = 9.444,
      .memory = 3.557,
      .l2 = 9.329,
      .fetch = 0.1172,
      .uneven = 0.4292,
      .launch = 2.399,
      .wave = 2.2,
      .cluster = 0.8644,
      .store = 200.9,
      .send = 47.04,
      .fixup = 0.8999,
      .exchange = 148.4,
      .add = 258,
      .persistent_launch = 2.039,
      .epilogue_k = 243.1,
      // [/fitted]
      // All of these, and an H200's of the same names, are fitted to what 12 rungs take at 1000
      // shapes on H100s: plots/NOTES.md. An H200's own are in the ratios of an earlier fit.
      .persistent_full = H200_COSTS.wgmma.persistent_full,
      .clusters = {},
      .sectors = H200_COSTS.wgmma.sectors,
      .half = H200_COSTS.wgmma.half,
      .stream_memory = 0.8868,
      .apart = H200_COSTS.wgmma.apart,
      .alone = 1.645,
      .part = 0.3162,
      .reduce = H200_COSTS.wgmma.reduce,
      .copies = H200_COSTS.wgmma.copies,
      .multicast = H200_COSTS.wgmma.multicast,
  };
  std::ranges::copy(H200_COSTS.wgmma.clusters, costs.wgmma.clusters);
  costs.wgmma.multicast.tensor = 7.045;
  costs.wgmma.multicast.memory = 2.769;
  costs.wgmma.multicast.l2 = 13.11;
  costs.wgmma.multicast.fetch = 0.1947;
  costs.wgmma.multicast.issue = 0.3;
  return costs;
}();

}  // namespace gemm
