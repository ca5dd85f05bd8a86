// v27 engine: one kernel over configurations, for tiles of any extent.
//
// before: v24's tiles have three sizes, v25's eight; where C is not cut by one of them into whole
//         waves, SMs idle: 1176 x 1680 is 90 tiles of 128 x 192, which leave 42 of 132 SMs idle
// idea:   a configuration is a value: the tile's largest extent, stages, consumers. The plan
//         chooses the extent along y, any multiple of 8, which a wgmma's columns may be; the
//         cluster, whose CTAs load k-tiles for each other along both sides; and the parts of K,
//         whose sums a second kernel adds up
// watch:  y runs along C's columns, or along its rows: then C^T is computed
// needs:  sm_90a; C's rows in whole 16 bytes: v24 otherwise; copies as for v24
//
// The kernel, its roles and barriers: engine/gemm.cuh. How the plan is made: plan/engine.cpp.
#include "engine/launch.h"
#include "rung.h"

namespace {
using namespace gemm;

template <class T, int CONFIGURATION>
void launch(const GemmArgs<T>& p, const Plan& plan, Stream stream) {
  engine_device::launch<GemmArgs<T>, CONFIGURATION>(p, plan.kept<engine::Choice>(), current_arch(),
                                                    stream);
}
template <class T, int CONFIGURATION>
void launch_fused(const FusedArgs<T>& p, const Plan& plan, Stream stream) {
  engine_device::launch<FusedArgs<T>, CONFIGURATION>(p, plan.kept<engine::Choice>(), current_arch(),
                                                     stream);
}

// Ping-pong kernels take an operand whose rows lie along K.
template <class T>
bool has_k_major(const GemmArgs<T>& p) {
  return p.op_a == Op::N || p.op_b == Op::T;
}

// Only ping-pong kernels have the whole epilogue; an epilogue pass follows the others.
template <class T, int I>
constexpr Variant<T> variant(const char* name) {
  if constexpr (engine::CONFIGURATIONS[I].ping_pong())
    return {name, launch<T, I>, has_k_major<T>, launch_fused<T, I>, nullptr, has_rows_of_a};
  else
    return {name, launch<T, I>};
}
template <class T>
const Variant<T> VARIANTS[] = {variant<T, 0>("128x256 s4"),
                               variant<T, 1>("128x128 s7"),
                               variant<T, 2>("128x64 s9"),
                               variant<T, 3>("192x192 s4"),
                               variant<T, 4>("64x192 s6"),
                               variant<T, 5>("64x64 s14"),
                               variant<T, 6>("128x192 s5 ping-pong"),
                               variant<T, 7>("64x128 s8 ping-pong")};
static_assert(std::size(VARIANTS<half>) == engine::CONFIGURATION_COUNT);

template <class T>
bool takes(const GemmArgs<T>& p) {
  return has_aligned_c(p);
}

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
std::string explain(const GemmArgs<T>&, const Plan& plan) {
  return engine::explain(plan.kept<engine::Choice>(), plan.sms);
}

const Registration rung({.prev = "v24",
                         .idea = "engine: one kernel over configurations, tiles of any extent",
                         .needs = {.sm = 90, .exact_arch = true, .transposed = true}},
                        {f16(VARIANTS<half>, {plan, explain, takes}),
                         bfloat16(VARIANTS<bf16>, {plan, explain, takes})});

}  // namespace
