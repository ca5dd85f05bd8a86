#include "own/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/simulator.h"

// Kernels ask for their indices here; what they read then is not theirs.
#define GEMM_UNSEEN __attribute__((no_sanitize("thread")))

namespace gemm::own {
namespace {

constexpr size_t SHARED_UNASKED = 48 * 1024;
constexpr unsigned MOST_Y = 65535;

uint3 grid = {1, 1, 1};
Launches call;
const void* call_stream = nullptr;
size_t shared_allowed = SHARED_UNASKED;
std::set<const void*> freed_memory;

}  // namespace

GEMM_UNSEEN uint3 block_idx() {
  const unsigned i = sim::this_thread.block_idx.x;
  return {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
}
GEMM_UNSEEN uint3 grid_dim() { return grid; }

void begin_call(const void* stream) {
  call = {};
  call_stream = stream;
  freed_memory.clear();
}
Launches launches() { return call; }

void note_memory(const void* p, bool freed) {
  if (freed)
    freed_memory.insert(p);
  else
    freed_memory.erase(p);
}

void check_argument(const sim::TensorMap& map) {
  if (freed_memory.contains(map.base))
    throw sim::Error(
        "launch: a tensor map is of memory that has been freed: an AlignedRows must live until "
        "then");
}

void allow_shared(size_t bytes) { shared_allowed = std::max(shared_allowed, bytes); }

void launch(dim3 shape, dim3 block, size_t smem, const void* stream, void (*body)(void*),
            void* context) {
  if (call_stream != nullptr && stream != call_stream)
    throw sim::Error(
        "a kernel is launched on another stream than the call's: nobody would wait for it");
  if (shape.x == 0 || shape.y == 0 || shape.z == 0 || shape.y > MOST_Y || shape.z > MOST_Y)
    throw sim::Error(
        fmt::format("launch: a grid of {} x {} x {} blocks; allowed: 1 to 2147483647 along x, "
                    "65535 along y and z",
                    shape.x, shape.y, shape.z));
  if (smem > shared_allowed)
    throw sim::Error(
        fmt::format("launch: {} bytes of dynamic shared memory; allowed: up to {}, more after "
                    "cudaFuncSetAttribute",
                    smem, shared_allowed));
  grid = shape;
  call.count += 1, call.grid = shape, call.block = block;
  sim::LaunchConfig config;
  config.grid = int64_t{shape.x} * shape.y * shape.z;
  config.block = block;
  config.smem = smem;
  sim::runtime::launch(body, context, config);
}

void inline_ptx(const char* where) {
  throw sim::Error(fmt::format(
      "{}: the simulator cannot run inline PTX (asm) but mma.sync alone; it runs CUDA C++, and the "
      "functions of labs/hopper.h",
      where));
}

}  // namespace gemm::own
