#include "plan/arch.h"

#include "plan/costs_h200.h"

namespace gemm {

const Costs& costs_of(const std::string&) { return H200_COSTS; }

const Arch& simulated_arch() {
  static const Arch arch{.name = "NVIDIA H200",
                         .sms = 132,
                         .ctas = 4,
                         .clusters = true,
                         .shared_memory = 227 * 1024,
                         .costs = &H200_COSTS};
  return arch;
}

}  // namespace gemm
