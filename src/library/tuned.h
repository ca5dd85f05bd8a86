// What `gemm_bench --tune` has measured, for plans of a program that asks for it.
#pragma once

#include <optional>
#include <vector>

#include "library/plan_cache.h"
#include "registry.h"

namespace gemm::library {

// Reads a tuning cache in place of the one before. Null: the file that --tune writes unless told
// otherwise; "": none from now on. Throws Failure.
void use_tuning(const char* file);
// Differs after each use_tuning(): plans that were made before are another tuning's.
const void* tuning_in_use();

// The plan by the variant that was the fastest of those that take this call; none: no such problem was
// measured on this GPU. A plain product of exactly these sizes counts, by any of `rungs`.
std::optional<Plan> tuned_plan(const PlanKey& key, const GemmCall& call,
                               const std::vector<const Rung*>& rungs, const Arch& arch);

}  // namespace gemm::library
