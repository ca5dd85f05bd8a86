// The simulator's stand-in for CUDA's headers: all that a kernel compiled by a host compiler sees
// of it. Include through device/platform.h, which names the build. Where a kernel can touch its
// data, functions are always inlined; the rest is sim/runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#include "sim/bf16.h"
#include "sim/fp8.h"
#include "sim/half.h"
#include "sim/hopper.h"
#include "sim/runtime.h"
#include "sim/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// An OS thread runs one block at a time, and the block's threads are its fibers. constinit: like
// CUDA, no initialisers, and so no flag beside the variable that says whether one has run.
#define __shared__ constinit static thread_local

#define threadIdx (::gemm::sim::this_thread.thread_idx)
#define blockIdx (::gemm::sim::this_thread.block_idx)
#define blockDim (::gemm::sim::this_thread.block_dim)
#define gridDim (::gemm::sim::this_thread.grid_dim)

// Every function that waits names its caller's line.
#define GEMM_SIM_HERE std::source_location where = std::source_location::current()

GEMM_SIM_INLINE void __syncthreads(GEMM_SIM_HERE) { gemm::sim::runtime::barrier(where); }
GEMM_SIM_INLINE void __syncwarp(unsigned mask = 0xffffffff, GEMM_SIM_HERE) {
  gemm::sim::runtime::sync_warp(mask, where);
}

namespace gemm::sim {
inline namespace GEMM_BUILD {

using Stream = void*;

// Runs `body` as every thread of the grid, synchronously. Throws Error (sim/simulator.h).
template <class Body>
void launch(Body&& body, const LaunchConfig& config) {
  runtime::launch([](void* b) { (*static_cast<std::remove_reference_t<Body>*>(b))(); }, &body,
                  config);
}

// Launches when all before it in `stream` has run, which is_queued: `body` is copied. `kernel`
// names it in diagnoses.
template <class Body>
void launch_on(void* stream, const void* kernel, Body body, const LaunchConfig& config) {
  runtime::launch_on(
      stream, {[](void* b) { (*static_cast<Body*>(b))(); }, new Body(std::move(body)), sizeof(Body),
               [](void* b) { delete static_cast<Body*>(b); }, kernel, config});
}

// The block's dynamic shared memory, 1024-byte aligned.
GEMM_SIM_INLINE void* dynamic_shared() { return runtime::dynamic_shared(); }

template <class T>
GEMM_SIM_INLINE T shuffle(Shuffle mode, uint32_t mask, T value, uint32_t operand, int width,
                          std::source_location where) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = runtime::shuffle(mode, mask, bits, operand, width, where);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// PTX's own; see device/ptx/ for their semantics and layouts.
GEMM_SIM_INLINE void cp_async(void* shared, const void* global, int bytes, int src_bytes,
                              GEMM_SIM_HERE) {
  runtime::cp_async(shared, global, bytes, src_bytes, where);
}
GEMM_SIM_INLINE void cp_async_commit() { runtime::cp_async_commit(); }
GEMM_SIM_INLINE void cp_async_wait(int pending) { runtime::cp_async_wait(pending); }

// ldmatrix.x<count>: r has `count` (1, 2 or 4) words.
GEMM_SIM_INLINE void ldmatrix(uint32_t* r, int count, const void* row, bool transposed,
                              GEMM_SIM_HERE) {
  runtime::ldmatrix(r, count, row, transposed, where);
}
GEMM_SIM_INLINE void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                             GEMM_SIM_HERE) {
  runtime::mma_f16(d, a, b, where);
}
GEMM_SIM_INLINE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              GEMM_SIM_HERE) {
  runtime::mma_bf16(d, a, b, where);
}
GEMM_SIM_INLINE void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              GEMM_SIM_HERE) {
  runtime::mma_tf32(d, a, b, where);
}

// cvt.rna.tf32.f32: to nearest, ties away from zero; a NaN becomes the canonical one.
GEMM_SIM_INLINE uint32_t cvt_rna_tf32(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff;
  return (bits + 0x1000) & ~0x1fffu;
}

}  // namespace GEMM_BUILD
}  // namespace gemm::sim

template <class T>
GEMM_SIM_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32, GEMM_SIM_HERE) {
  return gemm::sim::shuffle(gemm::sim::Shuffle::idx, mask, value, lane, width, where);
}
template <class T>
GEMM_SIM_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                 GEMM_SIM_HERE) {
  return gemm::sim::shuffle(gemm::sim::Shuffle::up, mask, value, delta, width, where);
}
template <class T>
GEMM_SIM_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                   GEMM_SIM_HERE) {
  return gemm::sim::shuffle(gemm::sim::Shuffle::down, mask, value, delta, width, where);
}
template <class T>
GEMM_SIM_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                                  GEMM_SIM_HERE) {
  return gemm::sim::shuffle(gemm::sim::Shuffle::bfly, mask, value, lanes, width, where);
}
GEMM_SIM_INLINE unsigned __ballot_sync(unsigned mask, int predicate, GEMM_SIM_HERE) {
  return gemm::sim::runtime::ballot(mask, predicate != 0, where);
}
GEMM_SIM_INLINE int __any_sync(unsigned mask, int predicate, GEMM_SIM_HERE) {
  return gemm::sim::runtime::ballot(mask, predicate != 0, where) != 0;
}
GEMM_SIM_INLINE int __all_sync(unsigned mask, int predicate, GEMM_SIM_HERE) {
  return gemm::sim::runtime::ballot(mask, predicate != 0, where) == mask;
}

template <class T>
GEMM_SIM_INLINE T __ldg(const T* p) {
  return *p;
}

// Atomic among all threads of the grid. Returns the old value.
GEMM_SIM_INLINE float atomicAdd(float* p, float value) {
  return gemm::sim::runtime::atomic_add(p, value);
}
GEMM_SIM_INLINE int atomicAdd(int* p, int value) {
  return gemm::sim::runtime::atomic_add(p, value);
}
