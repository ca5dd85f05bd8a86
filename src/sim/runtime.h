// What sim/cuda.h calls: the out-of-line half of the simulator, compiled once and shared by the
// plain and the traced kernels. Functions that wait take the source line, so that every diagnosis
// can name it. All throw Error when called outside a kernel, and as each says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#include "sim/vector_types.h"

namespace gemm::sim {

struct Block;
class Tracer;

// What a launch runs: `grid` blocks (along x), each of `block` threads and with `smem` bytes of
// dynamic shared memory; `cluster` consecutive blocks form a cluster. `pdl`: on a GPU it may begin
// before the launch before has ended, so each block has to call grid_dependency_wait.
struct LaunchConfig {
  int64_t grid = 1;
  dim3 block;
  size_t smem = 0;
  int cluster = 1;
  bool pdl = false;
};

// A launch that waits in a stream of Devices (devices.h): `context` is its own copy, which `destroy`
// deletes. `kernel`: for its name.
struct QueuedLaunch {
  void (*body)(void*);
  void* context;
  size_t context_bytes;
  void (*destroy)(void*);
  const void* kernel;
  LaunchConfig config;
};

// The CUDA thread that this OS thread runs now. It is the only thread_local variable of the
// simulator; see shared_memory.h for why.
struct ThisThread {
  uint3 thread_idx, block_idx, block_dim, grid_dim;
  Block* block;    // null outside kernels
  Tracer* tracer;  // null where nothing is traced
};
extern __thread ThisThread this_thread;

enum class Shuffle { idx, up, down, bfly };

namespace runtime {

// Runs body(context) as every thread of every block and returns when all have exited. Throws Error
// for a launch that a GPU refuses (see check in launch.cpp) and for anything a block did wrong.
void launch(void (*body)(void*), void* context, const LaunchConfig& config);

// Whether launches on this stream are queued (sim/devices.h), and one that is.
bool is_queued(const void* stream);
void launch_on(void* stream, const QueuedLaunch& launch);
// The host's work, in the order of such a stream.
void queue_call(void* stream, std::function<void()> work);

// __syncthreads: throws when other threads wait at another line, or have exited.
void barrier(std::source_location where);
void* dynamic_shared();

// griddepcontrol.wait. In a launch with PDL a thread may use TMA only behind its own, and a block
// has at least one before it ends (see LaunchConfig).
void grid_dependency_wait();

// Warp collectives. `mask` names the lanes that take part; all must arrive with the same mask, at
// the same line. Throws when they do not, or never can.
void sync_warp(uint32_t mask, std::source_location where);
uint64_t shuffle(Shuffle mode, uint32_t mask, uint64_t value, uint32_t operand, int width,
                 std::source_location where);
uint32_t ballot(uint32_t mask, bool predicate, std::source_location where);
void ldmatrix(uint32_t* r, int count, const void* row, bool transposed, std::source_location where);
void mma_f16(float* d, const uint32_t* a, const uint32_t* b, std::source_location where);
void mma_bf16(float* d, const uint32_t* a, const uint32_t* b, std::source_location where);
void mma_tf32(float* d, const uint32_t* a, const uint32_t* b, std::source_location where);

// cp.async; throws on misaligned or impossible arguments.
void cp_async(void* shared, const void* global, int bytes, int src_bytes,
              std::source_location where);
void cp_async_commit();
void cp_async_wait(int pending);

// Scratch memory of a launch (device/workspace.h), 256-byte aligned, all bytes 0xff: NaN in every
// type. Where kernels are traced, its bounds are checked, and that what is read has been written.
// Throws std::bad_alloc. Released and zeroed in the order of the stream where launches are queued.
void* workspace_allocate(size_t bytes);
void workspace_release(void* p, void* stream);
void workspace_zero(void* p, void* stream);
void queue_workspace(void* stream, void (*f)(void*), void* p);

float atomic_add(float* address, float value);
int atomic_add(int* address, int value);

}  // namespace runtime
}  // namespace gemm::sim
