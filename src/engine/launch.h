// Launches of the engine's kernels, as planned (plan/engine.h). Host code.
//
// What stands here is declared alone: each configuration is compiled in a file of its own, which
// the build writes from configuration.cu.in.
#pragma once

#include "device/gemm_args.h"
#include "plan/engine.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using engine::Choice;

// A product, a batch or groups by one configuration. Batches that equal tiles do not take in one
// launch are launched product by product.
template <class T, int CONFIGURATION>
struct Launches {
  static constexpr engine::Configuration CONFIG = engine::CONFIGURATIONS[CONFIGURATION];
  static constexpr bool HAS_FUSED = CONFIG.ping_pong(),
                        HAS_GATED = CONFIG.schedule == engine::Schedule::tiles;

  static void plain(const GemmArgs<T>& p, const Choice& choice, const Arch& arch, Stream stream);
  // One product with the whole epilogue; with columns of D by pairs. Nothing where there is no kernel.
  static void fused(const FusedArgs<T>& p, const Choice& choice, const Arch& arch, Stream stream);
  static void gated(const GatedArgs<T>& p, const Choice& choice, const Arch& arch, Stream stream);
};

// Sums of half or bf16 as they are, in float: one configuration (to_float.cu).
template <class T>
void launch_to_float(const GemmArgs<T, T, float>& p, const Arch& arch, Stream stream);

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
