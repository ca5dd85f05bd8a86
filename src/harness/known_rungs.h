// The rungs of the course that this program lacks: a build compiles those that were asked for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry.h"

namespace gemm {

struct KnownRung {
  const char* name;  // "v05_float4"
  const char* idea;  // one line
};

// Called by the generated known_rungs.cpp, which only gemm_bench links. Returns true.
bool set_known_rungs(std::vector<KnownRung> all);

// The known rungs that have no kernel for this backend here, by name.
std::vector<KnownRung> rungs_not_built(Backend backend);
// The one among them with this id or name.
std::optional<KnownRung> find_not_built(Backend backend, const std::string& id_or_name);
// What builds these rungs for a backend and runs them: "scripts/bench.sh --kernel v8".
std::string command_that_builds(Backend backend, const std::string& kernels);

}  // namespace gemm
