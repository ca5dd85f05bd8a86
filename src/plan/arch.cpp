#include "plan/arch.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "all_costs.h"

namespace gemm {

const Costs& costs_of(const char* gpu) {
  std::string letters;  // "NVIDIA GeForce RTX 4090" has RTX4090 in it
  for (const unsigned char c : std::string_view(gpu))
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::toupper(c));
  for (const auto& [name, costs] : ALL_COSTS)
    if (letters.find(name) != std::string::npos) return *costs;
  return H200_COSTS;
}

int clusters_at_a_time(const Arch& arch, int size) {
  return std::max(int(arch.sms * arch.costs->clusters[size] + 0.5) / size, 1);
}

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
