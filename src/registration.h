// What registration makes of a rung's entries: rungs that take every call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "entry.h"
#include "registry.h"

namespace gemm {

// A rung's calls in one type, as the registry keeps them (Rung).
struct Calls {
  DType dtype;
  decltype(Rung::launch) launch = {};
  std::vector<RungVariant> variants = {};
  decltype(Rung::plan) plan = {};
  decltype(Rung::explain) explain = {};
  decltype(Rung::run) run = {};
  bool estimates = false, dispatches = false;
  std::function<bool(const GemmCall&, const Plan&)> fuses = {};  // Variants::fuses; empty: never
};
// Call it once for each entry: the calls own what it points to.
Calls calls_of(const Entry& entry);

// For a rung whose kernels compute one product: a batch by a launch each, planned once.
Calls product_by_product(Calls calls);
// For a rung that takes no groups: it has no plan for them, so that no dispatcher chooses it.
Calls without_groups(Calls calls);
// For a rung that does not keep rows' bits, likewise.
Calls without_invariance(Calls calls);
// Calls with every epilogue: what its kernel lacks is left to a pass, which its plan counts in.
// Scales of f16 need sums in float between both: by the rung `id`'s entry for float results, by that of
// a rung before it, or by any. Where none takes the layout the pass scales what was rounded.
Calls with_epilogue_pass(Calls calls, const BackendCalls& backend, const std::string& id = {});

}  // namespace gemm
