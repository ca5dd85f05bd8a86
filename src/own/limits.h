// What a kernel of a user's own supports, found out by running it.
#pragma once

#include <functional>
#include <string>

#include "harness/device.h"
#include "registry.h"
#include "sim/vector_types.h"

namespace gemm::own {

// Runs the rung at shapes around 256 x 256 x 256, on sums of integers, bit for bit, and writes what it
// is right at into its Needs; then, where there is no limit, other calls: other_calls(). One sentence
// about that: "right where M is a multiple of 32 only; ...", or "no limit found".
// Nothing is written where it is wrong at whole tiles, too: verification says how.
// `before` is called for each call, by its name: what is known to be wrong there, which is not run.
using BeforeRun = std::function<std::string(const std::string& name)>;
std::string find_limits(Rung& rung, Device& device, const BeforeRun& before = {});

// Where a result is wrong, and a likely reason: "; first C[0][64] in tile (0, 2) of 32 x 32, ...;
// likely: ...". `wrong` is what verification said.
std::string diagnose(const Rung& rung, Device& device, int M, int N, int K,
                     const std::string& wrong, const uint3& grid);

}  // namespace gemm::own
