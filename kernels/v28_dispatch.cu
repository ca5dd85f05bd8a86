// v28 dispatch: for every shape the fastest kernel.
//
// before: no kernel is the fastest at every shape: v27 copies operands that TMA cannot address, and
//         v17u reads them where they lie; in FP32 v13 has large tiles, and v13s splits K
// idea:   what a library adds to its kernels is a cost model. Each rung plans the problem and
//         estimates its makespan, the time until its last SM ends. The least estimate wins
// watch:  the costs are fitted to measurements on one GPU; --explain says what they decide, --tune
//         measures all rungs and keeps what won, for this GPU
// needs:  sm_90a, as all of them
#include "registry.h"
#include "rung.h"

namespace {
using namespace gemm;

// [region idea]
// The plan of the rung with the least estimated time, or of the one asked for.
Plan plan(const Rung& self, const GemmCall& call, const Arch& arch, int candidate) {
  Plan best{.makespan = NEVER};
  for (size_t i = 0; i < self.candidates.size(); ++i) {
    const Rung* const rung = self.candidates[i];
    if (candidate != ANY_VARIANT) {
      if (candidate == int(i)) return gemm::plan(*rung, call, arch);
      continue;
    }
    const std::optional<Plan> plan = rung->plan(*rung, call, arch, ANY_VARIANT);
    if (!plan || (best.rung != nullptr && plan->makespan >= best.makespan)) continue;
    best = *plan;
    best.rung = rung;
  }
  return best;
}
// [/region idea]

const Registration rung(
    {.prev = "v24",
     .idea = "dispatch: for every shape the fastest kernel",
     .needs =
         {.sm = 90, .exact_arch = true, .transposed = true, .groups = true, .invariant = true}},
    {dispatcher(DType::f16, plan), dispatcher(DType::bf16, plan), dispatcher(DType::f32, plan)});

}  // namespace
