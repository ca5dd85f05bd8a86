// One typed function per PTX instruction, each with a GPU branch and a simulator branch. Names
// follow the instruction. Layouts are those of the PTX ISA, "Warp-level matrix instructions": lane
// = 4 * group + quad position; see mma_* below.
#pragma once

#include "device/platform.h"

// The simulator names the kernel's line in its diagnoses; a GPU cannot.
#if GEMM_ON_GPU
#define GEMM_CALLER_ARG
#define GEMM_CALLER_PASS
#define GEMM_ONLY_CALLER_ARG  // where it is the only one
#else
#define GEMM_CALLER_ARG , std::source_location where = std::source_location::current()
#define GEMM_CALLER_PASS , where
#define GEMM_ONLY_CALLER_ARG std::source_location where = std::source_location::current()
#endif

// Instructions that came with sm_80 or sm_90, or exist on sm_90a alone. A kernel that uses them
// compiles for any architecture, and traps on others; its Needs keep it from being launched there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GEMM_SM80_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM80_ASM(...) __trap()
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define GEMM_SM90_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM90_ASM(...) __trap()
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GEMM_SM90A_ASM(...) asm volatile(__VA_ARGS__)
#else
#define GEMM_SM90A_ASM(...) __trap()
#endif

GEMM_BUILD_NAMESPACE_BEGIN

#if GEMM_ON_GPU
// The 32-bit address that PTX wants for a pointer into shared memory.
GEMM_DEVICE uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
#endif

// cp.async.cg: 16 bytes from global to shared memory past the registers, both addresses 16-byte
// aligned. Reads the first `src_bytes` (0..16) bytes and fills the rest with zeros; with 0 nothing
// is read. Complete only after cp_async_wait.
GEMM_DEVICE void cp_async_16(void* shared, const void* global, int src_bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
                "l"(global), "r"(src_bytes)
                : "memory");
#else
  sim::cp_async(shared, global, 16, src_bytes GEMM_CALLER_PASS);
#endif
}

// cp.async.commit_group: closes this thread's current group of copies.
GEMM_DEVICE void cp_async_commit() {
#if GEMM_ON_GPU
  GEMM_SM80_ASM("cp.async.commit_group;" ::: "memory");
#else
  sim::cp_async_commit();
#endif
}

// cp.async.wait_group: returns when at most PENDING of this thread's groups are still in flight.
template <int PENDING>
GEMM_DEVICE void cp_async_wait() {
#if GEMM_ON_GPU
  GEMM_SM80_ASM("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#else
  sim::cp_async_wait(PENDING);
#endif
}

// ldmatrix.x4: four 8x8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of
// matrix l / 8 (16 bytes, aligned); lane l receives in r[i] elements 2 * (l % 4) and + 1 of row l /
// 4 of matrix i.
GEMM_DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/false GEMM_CALLER_PASS);
#endif
}

// ldmatrix.x4.trans: as above with each 8x8 matrix transposed on the way.
GEMM_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  sim::ldmatrix(r, 4, row, /*transposed=*/true GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k16, f16 in, f32 accumulate: d += a * b. With g = lane / 4 and t = lane % 4, in
// 32-bit words of two halves (consecutive k, the lower k in the lower half):
//   a[0..3] = A(g, word t), A(g + 8, word t), A(g, word t + 4), A(g + 8, word t + 4)
//   b[0..1] = B(word t, g), B(word t + 4, g)
//   d[0..3] = D(g, 2t), D(g, 2t + 1), D(g + 8, 2t), D(g + 8, 2t + 1)
GEMM_DEVICE void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_f16(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k16, bf16 in, f32 accumulate: as above.
GEMM_DEVICE void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_bf16(d, a, b GEMM_CALLER_PASS);
#endif
}

// mma.sync.m16n8k8, tf32 in, f32 accumulate: d += a * b. The same picture as above with one tf32
// value a word.
GEMM_DEVICE void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                  const uint32_t (&b)[2] GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM80_ASM(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  sim::mma_tf32(d, a, b GEMM_CALLER_PASS);
#endif
}

// cvt.rna.tf32.f32: rounds to 10 mantissa bits, to nearest with ties away from zero; the result is
// a float's bit pattern.
GEMM_DEVICE uint32_t cvt_rna_tf32(float x) {
#if GEMM_ON_GPU
  uint32_t r = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));  // not volatile: it may move
#else
  __trap();
#endif
  return r;
#else
  return sim::cvt_rna_tf32(x);
#endif
}

// Shared memory, beyond what a launch declares
// -------------------------------------------------------------------------------------------------

// The block's dynamic shared memory, aligned as the widest TMA swizzle wants it. Tiles of TMA and
// wgmma lie here; in a cluster everything does (the simulator's __shared__ variables belong to an
// OS thread, and a cluster's blocks share one).
GEMM_DEVICE void* dynamic_shared() {
#if GEMM_ON_GPU
  extern __shared__ __align__(1024) unsigned char gemm_dynamic_shared[];
  return gemm_dynamic_shared;
#else
  return sim::dynamic_shared();
#endif
}

// stmatrix.x<COUNT>, the inverse of ldmatrix: lane l gives the address of row l % 8 of matrix l / 8
// and, in r[i], elements 2 * (l % 4) and + 1 of row l / 4 of matrix i.
template <int COUNT>
GEMM_DEVICE void stmatrix(void* row, const uint32_t (&r)[COUNT] GEMM_CALLER_ARG) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "stmatrix stores 1, 2 or 4 matrices");
#if GEMM_ON_GPU
  if constexpr (COUNT == 1)
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(shared_address(row)),
                  "r"(r[0])
                  : "memory");
  else if constexpr (COUNT == 2)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
        "r"(r[0]), "r"(r[1])
        : "memory");
  else
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                      shared_address(row)),
                  "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                  : "memory");
#else
  sim::runtime::stmatrix(r, COUNT, row, /*transposed=*/false GEMM_CALLER_PASS);
#endif
}

// stmatrix.x<COUNT>.trans: as above with each 8x8 matrix transposed on the way.
template <int COUNT>
GEMM_DEVICE void stmatrix_trans(void* row, const uint32_t (&r)[COUNT] GEMM_CALLER_ARG) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "stmatrix stores 1, 2 or 4 matrices");
#if GEMM_ON_GPU
  if constexpr (COUNT == 1)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(shared_address(row)),
        "r"(r[0])
        : "memory");
  else if constexpr (COUNT == 2)
    GEMM_SM90_ASM(
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
        "r"(r[0]), "r"(r[1])
        : "memory");
  else
    GEMM_SM90_ASM("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                      shared_address(row)),
                  "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                  : "memory");
#else
  sim::runtime::stmatrix(r, COUNT, row, /*transposed=*/true GEMM_CALLER_PASS);
#endif
}

// movmatrix.trans: an 8x8 matrix turned round in registers; lane l has elements 2 * (l % 4) and + 1
// of its row l / 4, before and after.
GEMM_DEVICE uint32_t movmatrix_trans(uint32_t pair) {
#if GEMM_ON_GPU
  uint32_t turned = 0;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
#else
  const int lane = threadIdx.x % 32, from = lane % 4 * 8 + lane / 8, shift = lane / 4 % 2 * 16;
  const uint32_t even = __shfl_sync(~0u, pair, from), odd = __shfl_sync(~0u, pair, from + 4);
  return (even >> shift & 0xFFFF) | (odd >> shift & 0xFFFF) << 16;
#endif
}

// mbarrier: arrivals and bytes, counted in shared memory (PTX ISA, "mbarrier")
// -------------------------------------------------------------------------------------------------
// An mbarrier's phase completes when `count` threads have arrived and all bytes that they announced
// have come; the next phase begins at once. Phases are told apart by their parity: the first is 0.

// mbarrier.init: one thread, then fence_mbarrier_init and a barrier of all who will use it.
GEMM_DEVICE void mbarrier_init(uint64_t* barrier, uint32_t count GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
                : "memory");
#else
  sim::runtime::mbarrier_init(barrier, count GEMM_CALLER_PASS);
#endif
}

// fence.mbarrier_init: makes the thread's mbarrier_init visible to TMA and to the cluster.
GEMM_DEVICE void fence_mbarrier_init() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
  sim::runtime::fence_mbarrier_init();
#endif
}

// mbarrier.arrive
GEMM_DEVICE void mbarrier_arrive(uint64_t* barrier GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                : "memory");
#else
  sim::runtime::mbarrier_arrive(barrier, 0 GEMM_CALLER_PASS);
#endif
}

// mbarrier.arrive.expect_tx: announces `bytes` bytes, then arrives.
GEMM_DEVICE void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#else
  sim::runtime::mbarrier_arrive(barrier, bytes GEMM_CALLER_PASS);
#endif
}

// mapa and mbarrier.arrive: at the barrier at the same place in block `rank` of the cluster. It
// frees a buffer for that block's TMA; data written through map_shared is handed over by
// cluster_arrive and cluster_wait instead.
GEMM_DEVICE void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#else
  sim::runtime::mbarrier_arrive_remote(barrier, rank GEMM_CALLER_PASS);
#endif
}

// mbarrier.try_wait.parity: whether the phase of this parity has completed; waits for a while
// first. (A fresh barrier counts as having completed a phase of parity 1.)
GEMM_DEVICE bool mbarrier_try_wait(uint64_t* barrier, uint32_t parity GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  uint32_t done = 0;
  GEMM_SM90_ASM(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
#else
  sim::runtime::mbarrier_wait(barrier, parity GEMM_CALLER_PASS);
  return true;
#endif
}

// Returns when the phase of this parity has completed.
GEMM_DEVICE void mbarrier_wait(uint64_t* barrier, uint32_t parity GEMM_CALLER_ARG) {
  while (!mbarrier_try_wait(barrier, parity GEMM_CALLER_PASS)) {
  }
}

// TMA: tiles between global and shared memory (PTX ISA, "cp.async.bulk.tensor")
// -------------------------------------------------------------------------------------------------

// What TMA knows of a matrix: made on the host (device/tma.h), passed as a parameter declared
// `const __grid_constant__ TensorMap`.
#if GEMM_ON_GPU
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};
#else
using TensorMap = sim::TensorMap;
#endif

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
  GEMM_SM90_ASM("fence.proxy.async.shared::cta;" ::: "memory");
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
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(col), "r"(row), "r"(shared_address(barrier))
      : "memory");
#else
  sim::runtime::tma_load(shared, map, row, col, barrier, 0 GEMM_CALLER_PASS);
#endif
}

// The same to every block of the cluster whose rank's bit is set in `blocks`: to the same place in
// its shared memory, telling its barrier at the same place.
GEMM_DEVICE void tma_load_multicast(void* shared, const TensorMap& map, int row, int col,
                                    uint64_t* barrier, uint16_t blocks GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90A_ASM(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(col), "r"(row), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
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

// cp.async.bulk.tensor.2d, shared to global: the box at (row, col), what lies outside the matrix
// left out; but where the matrix's last column ends within 16 bytes, the tile is written to the
// end of those (seen on an H200), so a store needs whole groups of 16 bytes a row or a gap that it
// may fill. `col` as for tma_load; neither it nor `row` may be negative here. By one thread, after
// fence_proxy_async by those who wrote the tile; then tma_store_commit and a wait by that same
// thread.
GEMM_DEVICE void tma_store(const TensorMap& map, int row, int col,
                           const void* shared GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(col), "r"(row), "r"(shared_address(shared))
      : "memory");
#else
  sim::runtime::tma_store(map, row, col, shared GEMM_CALLER_PASS);
#endif
}

// cp.async.bulk.commit_group: closes this thread's current group of stores.
GEMM_DEVICE void tma_store_commit() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("cp.async.bulk.commit_group;" ::: "memory");
#else
  sim::runtime::bulk_commit();
#endif
}

// cp.async.bulk.wait_group.read: returns when at most PENDING of this thread's groups have still to
// read shared memory, which may then be written again. Needed before the block ends, too.
template <int PENDING>
GEMM_DEVICE void tma_store_wait_read() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
#else
  sim::runtime::bulk_wait(PENDING);
#endif
}

// cp.async.bulk.wait_group: the same, and what they wrote to global memory is there.
template <int PENDING>
GEMM_DEVICE void tma_store_wait() {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
#else
  sim::runtime::bulk_wait(PENDING);
#endif
}

// Roles of warps
// -------------------------------------------------------------------------------------------------

// bar.sync: waits until `threads` threads (whole warps) have come to named barrier `id`, 1 to 15;
// 0 is __syncthreads.
GEMM_DEVICE void named_barrier_sync(int id, int threads GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  sim::runtime::named_barrier(id, threads, /*waits=*/true GEMM_CALLER_PASS);
#endif
}

// bar.arrive: counts as come, and goes on.
GEMM_DEVICE void named_barrier_arrive(int id, int threads GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  sim::runtime::named_barrier(id, threads, /*waits=*/false GEMM_CALLER_PASS);
#endif
}

// setmaxnreg.inc and .dec: by all warps of a warpgroup; takes registers from the block's pool, once
// they are there, or gives them back.
template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_inc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "PTX ISA, setmaxnreg");
#if GEMM_ON_GPU
  GEMM_SM90A_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS>
GEMM_DEVICE void setmaxnreg_dec() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "PTX ISA, setmaxnreg");
#if GEMM_ON_GPU
  GEMM_SM90A_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

// elect.sync: true in one lane of a whole warp, which the compiler then knows to be one.
GEMM_DEVICE bool elect_one() {
#if GEMM_ON_GPU
  uint32_t elected = 0;
  GEMM_SM90_ASM(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
#else
  return sim::runtime::lane() == 0;
#endif
}

// The warpgroup that this thread is in, the same for all lanes of a warp. The compiler does not
// know that of threadIdx.x / 128: all that follows from it, descriptors of wgmma above all, it
// would keep in every lane and move to uniform registers each time, 105 instructions in v24's loop
// over a slice instead of 72.
GEMM_DEVICE int warpgroup() { return __shfl_sync(~0u, threadIdx.x / 128, 0); }

// Kernels that overlap (PTX ISA, "griddepcontrol"; LaunchOptions::early)
// -------------------------------------------------------------------------------------------------

// griddepcontrol.wait: returns when the kernels before this one in the stream have ended and what
// they wrote is visible. Before a block touches global memory, by its threads or by one that the
// others wait for. Below sm_90 no kernel begins before that.
GEMM_DEVICE void grid_dependency_wait() {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#elif !GEMM_ON_GPU
  sim::runtime::grid_dependency_wait();
#endif
}

// The same, when a and b, neither of them negative, are known: on a condition that ptxas cannot see
// through, or it moves the divisions that they come from behind the wait, where they delay a
// kernel's first load.
GEMM_DEVICE void grid_dependency_wait(int a, int b) {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile(
      "{\n"
      "  .reg .pred known;\n"
      "  setp.ge.s32 known, %0, 0;\n"
      "  @known griddepcontrol.wait;\n"
      "}\n" ::"r"(a | b)
      : "memory");
#else
  static_cast<void>(a), static_cast<void>(b);
  grid_dependency_wait();
#endif
}

// griddepcontrol.launch_dependents: from now on, as far as this block is concerned, the next kernel
// may start.
GEMM_DEVICE void grid_launch_dependents() {
#if GEMM_ON_GPU && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Flags in global memory, from block to block
// -------------------------------------------------------------------------------------------------

// st.release.gpu: who sees `value` there through flag_wait sees what the thread wrote before.
GEMM_DEVICE void flag_set(uint64_t* flag, uint64_t value) {
#if GEMM_ON_GPU
  asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
#else
  sim::runtime::flag_set(flag, value);
#endif
}

// ld.acquire.gpu until it is `value`. Wait only for blocks with a lower index, which set it without
// waiting for others: those have been started before.
GEMM_DEVICE void flag_wait(const uint64_t* flag, uint64_t value GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  uint64_t now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(now) : "l"(flag) : "memory");
  } while (now != value);
#else
  sim::runtime::flag_wait(flag, value GEMM_CALLER_PASS);
#endif
}

// Clusters: blocks on neighbouring SMs that reach each other's shared memory (PTX ISA, "Cluster of
// cooperative thread arrays")
// -------------------------------------------------------------------------------------------------

// %cluster_ctarank and %cluster_nctarank
GEMM_DEVICE uint32_t cluster_rank() {
#if GEMM_ON_GPU
  uint32_t rank = 0;
  GEMM_SM90_ASM("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return sim::runtime::cluster_rank();
#endif
}
GEMM_DEVICE uint32_t cluster_size() {
#if GEMM_ON_GPU
  uint32_t size = 0;
  GEMM_SM90_ASM("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
#else
  return sim::runtime::cluster_size();
#endif
}

// barrier.cluster.arrive and .wait, by all threads of the cluster: what any did before its arrive
// comes before what all do after their wait. No block may end while others still reach into its
// shared memory.
GEMM_DEVICE void cluster_arrive(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
  sim::runtime::cluster_arrive(where);
#endif
}
GEMM_DEVICE void cluster_wait(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  GEMM_SM90_ASM("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  sim::runtime::cluster_wait(where);
#endif
}
// A barrier of all threads of the cluster, or of the block where it is alone.
template <int CLUSTER>
GEMM_DEVICE void sync_cluster(GEMM_ONLY_CALLER_ARG) {
#if GEMM_ON_GPU
  if constexpr (CLUSTER == 1) return __syncthreads();
  cluster_arrive();
  cluster_wait();
#else
  if constexpr (CLUSTER == 1) return __syncthreads(where);
  cluster_arrive(where);
  cluster_wait(where);
#endif
}

// mapa: the same place in the shared memory of block `rank` of the cluster, for ordinary loads and
// stores.
template <class T>
GEMM_DEVICE T* map_shared(T* p, uint32_t rank GEMM_CALLER_ARG) {
#if GEMM_ON_GPU
  T* remote = nullptr;
  GEMM_SM90_ASM("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(p), "r"(rank));
  return remote;
#else
  return static_cast<T*>(sim::runtime::map_shared(p, rank GEMM_CALLER_PASS));
#endif
}

GEMM_BUILD_NAMESPACE_END
