// A warp of a simulated launch, by its block.
#pragma once

#include <cstdint>

namespace gemm::sim {

struct WarpId {
  static constexpr int ALL = -1;  // of its block
  int64_t block = 0;
  int warp = 0;
  bool operator==(const WarpId&) const = default;
};

}  // namespace gemm::sim
