// One part of the engine's kernels, in f16: KERNEL_PART of KERNEL_PARTS. So that parts compile at the same time.
#include "engine/launch.h"

#include <utility>

namespace gemm {

template <int... I>
bool launch_one(const GemmArgs<half>& p, const engine::Choice& choice, const Arch& arch,
                Stream stream, std::integer_sequence<int, I...>) {
  bool found = false;
  const auto one = [&](auto index) {
    if constexpr (index() % KERNEL_PARTS == KERNEL_PART)
      if (choice.configuration == index()) {
        engine_device::launch<GemmArgs<half>, index()>(p, choice, arch, stream);
        found = true;
      }
  };
  (one(std::integral_constant<int, I>()), ...);
  return found;
}

#define NAME_(part) launch_part_##part
#define NAME(part) NAME_(part)
bool NAME(KERNEL_PART)(const GemmArgs<half>& p, const engine::Choice& choice, const Arch& arch,
                Stream stream) {
  return launch_one(p, choice, arch, stream,
                    std::make_integer_sequence<int, engine::CONFIGURATION_COUNT>());
}

}  // namespace gemm
