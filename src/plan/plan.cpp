#include "plan/plan.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>

#include "launch_refused.h"
#include "registry.h"

namespace gemm {

Plan plan(const Rung& rung, const GemmCall& call, const Arch& arch, int variant) {
  for (const Rung* r = &rung; r != nullptr; r = find_rung(r->backend, r->prev, r->dtype)) {
    Plan planned;
    if (r->plan) {
      // A variant is one of this rung's, and means nothing to the rung before it.
      std::optional<Plan> own = r->plan(*r, call, arch, r == &rung ? variant : ANY_VARIANT);
      if (!own) continue;
      planned = *own;
    }
    if (planned.rung == nullptr) planned.rung = r;
    planned.sms = arch.sms;
    planned.ctas = arch.ctas;
    return planned;
  }
  throw std::logic_error(fmt::format("neither {} nor a rung before it takes this call", rung.name));
}

std::string explain(const Plan& plan, const GemmCall& call) {
  return plan.rung->explain ? plan.rung->explain(call, plan) : std::string();
}

void launch(const GemmCall& call, const Plan& plan) { plan.rung->run(call, plan); }

LaunchStatus try_launch(const GemmCall& call, const Plan& plan) {
  try {
    launch(call, plan);
    return {};
  } catch (const LaunchRefused& e) {
    return e.status;
  } catch (const std::bad_alloc&) {
    return {2, "cudaErrorMemoryAllocation", "out of memory", "workspace"};
  }
}

}  // namespace gemm
