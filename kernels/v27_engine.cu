// v27 engine: one kernel over configurations, for tiles of any extent.
//
// before: v24 has one tile, of 128 x 128; where C is not cut by it into whole waves, SMs idle:
//         1176 x 1680 is 140 tiles, and 124 of 132 SMs have only one of them
// idea:   a configuration is a value: the tile's largest extent and its consumers. The plan
//         chooses the extent along y, any multiple of 8, which a wgmma's columns may be; the
//         cluster, whose CTAs load k-tiles for each other along both sides; and the parts of K,
//         whose sums a second kernel adds up, or the CTAs of a cluster
// watch:  y runs along C's columns, or along its rows: then C^T is computed
// needs:  sm_90a; copies as for v24. For groups, equal tiles
//
// The kernel, its roles and barriers: engine/gemm.cuh. How the plan is made: plan/engine.cpp.
#include <string>

#include "engine/launch.h"
#include "engine/problem_of.h"
#include "rung.h"

namespace {
using namespace gemm;

template <auto LAUNCH, class Args>
void launch(const Args& p, const Plan& plan, Stream stream) {
  LAUNCH(p, plan.kept<engine::Choice>(), current_arch(), stream);
}

template <class T>
bool has_no_groups(const GemmArgs<T>& p) {
  return p.batch.ends == nullptr;
}

// Row panels take an operand whose rows lie along K, and a C with rows in whole 16 bytes.
template <class T>
bool takes_row_panels(const GemmArgs<T>& p) {
  return has_no_groups(p) && has_aligned_c(p) && (p.op_a == Op::N || p.op_b == Op::T);
}

// Only ping-pong kernels have the whole epilogue, and of them equal tiles a gated one; an epilogue
// pass follows the others.
template <class T, int I>
constexpr Variant<T> variant(const char* name) {
  using engine::Schedule;
  using Launches = engine_device::Launches<T, I>;
  Variant<T> v{name, launch<Launches::plain, GemmArgs<T>>};
  if (Launches::CONFIG.schedule == Schedule::rectangle) v.fits = has_no_groups<T>;
  if (Launches::CONFIG.schedule == Schedule::row_panels) v.fits = takes_row_panels<T>;
  if (Launches::HAS_FUSED) v.fused = launch<Launches::fused, FusedArgs<T>>, v.fuses = has_rows_of_a;
  if (Launches::HAS_GATED) v.gated = launch<Launches::gated, GatedArgs<T>>;
  return v;
}
template <class T>
void launch_to_float(const GemmArgs<T, T, float>& p, Stream stream) {
  engine_device::launch_to_float(p, current_arch(), stream);
}
template <class T>
const Variant<T> VARIANTS[] = {variant<T, 0>("64x128"),
                               variant<T, 1>("128x256"),
                               variant<T, 2>("192x192"),
                               variant<T, 3>("256x192"),
                               variant<T, 4>("128x192 s5 row panels"),
                               variant<T, 5>("64x128 s8 row panels"),
                               variant<T, 6>("128x192 s5 tiles"),
                               variant<T, 7>("128x128 s6 tiles"),
                               variant<T, 8>("64x128 s8 tiles")};
static_assert(std::size(VARIANTS<half>) == engine::CONFIGURATION_COUNT);

// [region idea]
// The configuration with the least estimated time, and how it cuts C; or that of one variant.
template <class T>
Plan plan(const FusedArgs<T>& p, const Arch& arch, int variant) {
  const engine::Choice choice = engine::choose(problem_of(p), arch, variant);
  Plan plan{.variant = choice.configuration, .makespan = choice.us};
  plan.keep(choice);
  return plan;
}
// [/region idea]

template <class T>
std::string explain(const GemmArgs<T>& p, const Plan& plan) {
  engine::Choice choice = plan.kept<engine::Choice>();
  const std::string products = std::to_string(p.batch.count);
  const bool in_one_launch =
      choice.config().schedule == engine::Schedule::tiles && fits_in_one_launch(p);
  if (p.batch.ends != nullptr)
    return products + " groups, tiles of " + std::to_string(choice.tiling.bm) + " x " +
           std::to_string(choice.tiling.bn) +
           (in_one_launch ? " in one launch" : ", a launch each");
  if (p.batch.count == 1) return engine::explain(choice, plan.sms);
  if (in_one_launch) return engine::explain(choice, plan.sms) + ", of " + products + " products";
  choice.us /= p.batch.count;
  return engine::explain(choice, plan.sms) + " in each of " + products + " launches";
}

const Registration rung({.prev = "v24",
                         .idea = "engine: one kernel over configurations, tiles of any extent",
                         .needs = {.sm = 90,
                                   .exact_arch = true,
                                   .transposed = true,
                                   .batches = true,
                                   .groups = true,
                                   .invariant = true}},
                        {f16(VARIANTS<half>, {plan, explain}),
                         bfloat16(VARIANTS<bf16>, {plan, explain}),
                         entry(DType::f16_f32, launch_to_float<half>),
                         twin(DType::bf16_f32, launch_to_float<bf16>)});

}  // namespace
