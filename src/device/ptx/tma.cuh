// TMA: tiles between global and shared memory (PTX ISA, "cp.async.bulk.tensor").
#pragma once

#include "device/ptx/asm.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// What TMA knows of a matrix: made on the host (device/tma.h), passed as a parameter declared
// `const __grid_constant__ TensorMap`.
#if GEMM_ON_GPU
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};
#else
using TensorMap = sim::TensorMap;
#endif

// One matrix of a batch, by a tensor map of rank 3: for tma_load and tma_store in place of the map
// of a single matrix.
struct MatrixOfBatch {
  const TensorMap& map;
  int index;
};

// prefetch.tensormap: brings the map near before its first use.
GEMM_DEVICE void prefetch_tensor_map(const TensorMap& map) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#else
  static_cast<void>(map);
#endif
}

// fence.proxy.async: what generic loads and stores did to shared memory before comes before what
// TMA and wgmma do after. By the threads that wrote, before the barrier that hands over to the one
// that issues.
GEMM_DEVICE void fence_proxy_async(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region fence]
  GEMM_SM90_ASM("fence.proxy.async.shared::cta;" ::: "memory");
  // [/region fence]
#else
  sim::runtime::fence_proxy_async(where);
#endif
}

// cp.async.bulk.tensor.2d, global to shared: the map's box whose first element is (row, col); what
// lies outside the matrix is zero. `barrier` is told of the whole box's bytes when they have come.
// `col` times the element's size must be a multiple of 16 bytes, also where it is negative:
// anything else is an illegal instruction on an H200. By one thread. `shared`: 128-byte aligned,
// with a swizzle at a multiple of 8 spans.
GEMM_DEVICE void tma_load(void* shared, const TensorMap& map, int row, int col,
                          uint64_t* barrier GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region load]
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(col), "r"(row), "r"(shared_address(barrier))
      : "memory");
  // [/region load]
#else
  sim::runtime::tma_load(shared, map, row, col, barrier, 0 GEMM_CALLER_PASS);
#endif
}
// cp.async.bulk.tensor.3d: the same of one matrix of a batch. What lies below its last row or beyond
// its last column is zero, also where the next matrix of the batch lies there.
GEMM_DEVICE void tma_load(void* shared, const MatrixOfBatch& matrix, int row, int col,
                          uint64_t* barrier GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(shared_address(shared)),
      "l"(&matrix.map), "r"(col), "r"(row), "r"(matrix.index), "r"(shared_address(barrier))
      : "memory");
#else
  sim::runtime::tma_load(shared, sim::matrix_of_batch(matrix.map, matrix.index), row, col, barrier,
                         0 GEMM_CALLER_PASS);
#endif
}

// Loads to every block of the cluster whose rank's bit is set in `blocks`. Each gets the box at one
// place of its shared memory, and its barrier at one place is told.
GEMM_DEVICE void tma_load_multicast(void* shared, const TensorMap& map, int row, int col,
                                    uint64_t* barrier, uint16_t blocks GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region multicast]
  GEMM_SM90A_ASM(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(col), "r"(row), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
  // [/region multicast]
#else
  sim::runtime::tma_load(shared, map, row, col, barrier, blocks GEMM_CALLER_PASS);
#endif
}

// cp.async.bulk, global to shared: `bytes` bytes in a row, a multiple of 16 as both addresses are.
GEMM_DEVICE void bulk_load(void* shared, const void* global, uint32_t bytes,
                           uint64_t* barrier GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#else
  sim::runtime::bulk_load(shared, global, bytes, barrier GEMM_CALLER_PASS);
#endif
}

// cp.async.bulk.prefetch.L2: asks L2 for `bytes` bytes in a row, a multiple of 16 as the address is.
// Nothing waits for it, and results do not depend on it: the simulator does nothing.
GEMM_DEVICE void bulk_prefetch(const void* global, uint32_t bytes) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#else
  static_cast<void>(global), static_cast<void>(bytes);
#endif
}

// cp.async.bulk.tensor.2d, shared to global: the box at (row, col), what lies outside the matrix
// left out; but where the matrix's last column ends within 16 bytes, the tile is written to the
// end of those (seen on an H200), so a store needs whole groups of 16 bytes a row or a gap that it
// may fill. `col` as for tma_load; neither it nor `row` may be negative here. By one thread, after
// fence_proxy_async by those who wrote the tile; then tma_store_commit and a wait by that same
// thread.
GEMM_DEVICE void tma_store(const TensorMap& map, int row, int col,
                           const void* shared GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  // [region store]
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(col), "r"(row), "r"(shared_address(shared))
      : "memory");
  // [/region store]
#else
  sim::runtime::tma_store(map, row, col, shared GEMM_CALLER_PASS);
#endif
}
// cp.async.bulk.tensor.3d: the same to one matrix of a batch.
GEMM_DEVICE void tma_store(const MatrixOfBatch& matrix, int row, int col,
                           const void* shared GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          &matrix.map),
      "r"(col), "r"(row), "r"(matrix.index), "r"(shared_address(shared))
      : "memory");
#else
  sim::runtime::tma_store(sim::matrix_of_batch(matrix.map, matrix.index), row, col,
                          shared GEMM_CALLER_PASS);
#endif
}

// cp.async.bulk.commit_group: closes this thread's current group of stores.
GEMM_DEVICE void tma_store_commit() {
#if GEMM_ON_GPU
  // [region commit]
  GEMM_SM90_ASM("cp.async.bulk.commit_group;" ::: "memory");
  // [/region commit]
#else
  sim::runtime::bulk_commit();
#endif
}

// cp.async.bulk.wait_group.read: returns when at most PENDING of this thread's groups have still to
// read shared memory, which may then be written again. Needed before the block ends, too.
template <int PENDING>
GEMM_DEVICE void tma_store_wait_read() {
#if GEMM_ON_GPU
  // [region wait_read]
  GEMM_SM90_ASM("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
  // [/region wait_read]
#else
  sim::runtime::bulk_wait(PENDING, false);
#endif
}

// cp.async.bulk.wait_group: the same, and what they wrote to global memory is there.
template <int PENDING>
GEMM_DEVICE void tma_store_wait() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
#else
  sim::runtime::bulk_wait(PENDING, true);
#endif
}

GEMM_BUILD_NAMESPACE_END
