// A kernel launch of a user's own file in the simulator, and what a call of his gemm did.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/runtime.h"
#include "sim/tensor_map.h"
#include "sim/vector_types.h"

namespace gemm::own {

// Indices along three axes: the simulator's grids have one.
uint3 block_idx();
uint3 grid_dim();

// What one call of gemm launched.
struct Launches {
  int64_t count = 0;
  uint3 grid = {}, block = {};  // of the last
};
// Begins a call on this stream, null where gemm has no such argument; throws away what was counted.
void begin_call(const void* stream);
Launches launches();

// Runs body(context) as each thread of the grid. Throws sim::Error, also where CUDA would return one.
void launch(dim3 grid, dim3 block, size_t smem, const void* stream, void (*body)(void*),
            void* context);
// cudaFuncSetAttribute: dynamic shared memory beyond 48 KiB has to be asked for.
void allow_shared(size_t bytes);

// cudaMalloc and cudaFree, of memory that tensor maps may be of.
void note_memory(const void* p, bool freed);
// Throws sim::Error where the map's memory was freed since the call began.
void check_argument(const sim::TensorMap& map);
template <class T>
void check_argument(const T&) {}

// Throws sim::Error: PTX of the file's own, at "mine.cu:57".
[[noreturn]] void inline_ptx(const char* where);

}  // namespace gemm::own
