// What a kernel of a user's own supports, found out by running it.
#pragma once

#include <string>

#include "harness/device.h"
#include "registry.h"

namespace gemm::own {

// Runs the rung at shapes around 256 x 256 x 256, on sums of integers, bit for bit, and writes what it
// is right at into its Needs. One sentence about that: "right at multiples of 32 in M and N; ...".
// Nothing is written where it is wrong at whole tiles, too: verification says how.
std::string find_limits(Rung& rung, Device& device);

}  // namespace gemm::own
