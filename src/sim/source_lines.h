// From program counters to source lines, by the program's own debug information.
#pragma once

#include <cstdint>
#include <source_location>

#include "sim/inspect.h"

namespace gemm::sim {

// Where an access stands. Functions of the simulator itself are left out.
struct Place {
  SourceLine line;    // in the kernel's own file: the innermost in a .cu, or else the outermost
  SourceLine helper;  // the innermost of all, unless that is `line`
};

// Stands for a line of the host, among program counters.
uintptr_t pc_of(const std::source_location& where);

// The place of the call that returns to `pc`, or of what stands for a line. Without debug information both are unknown.
Place place_of(uintptr_t pc);

// The name of a function of this program, "gemm_v8<128, 128>": without namespaces and parameters.
std::string function_name(const void* function);

// "v05_float4.cu:66", "v05_float4.cu:66 (tile_copy.cuh:17)"
std::string to_string(const Place& place);

}  // namespace gemm::sim
