// Hopper's instructions for a bare file: TMA, mbarriers, wgmma; and tensor maps for the host.
//
// Each function is one instruction, named as in src/device/ptx, where it is described in full.
// nvcc gets the PTX, the simulator those functions. Compile with -arch=sm_90a.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdint>

#ifdef __CUDACC__
using TensorMap = CUtensorMap;

// Instructions of sm_90a alone: nvcc -arch=sm_90a compiles the file for sm_90, too.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SM90A_ASM(...) asm volatile(__VA_ARGS__)
#else
#define SM90A_ASM(...) __trap()
#endif

// The 32-bit address that PTX wants for a pointer into shared memory.
__device__ inline uint32_t tile_address(const void* p) { return __cvta_generic_to_shared(p); }

// Barriers ---------------------------------------------------------------------------------------

// A barrier whose phases end with `count` arrivals and the bytes that they have announced.
__device__ inline void mbarrier_init(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(tile_address(barrier)), "r"(count)
               : "memory");
}
// Shows initialised barriers to TMA. A __syncthreads shows them to the other threads.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tile_address(barrier)) : "memory");
}
// Announces bytes, and arrives.
__device__ inline void mbarrier_arrive_expect_tx(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(tile_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Returns when the phase of this parity has ended. The first phase has parity 0. On a new barrier a
// wait for parity 1 returns at once.
__device__ inline void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(tile_address(barrier)), "r"(parity)
        : "memory");
}

// TMA, and fragments -----------------------------------------------------------------------------

// Requests the map's box at (row, col), by one thread. The barrier counts its bytes as they arrive.
// What lies outside of the matrix arrives as zeros.
__device__ inline void tma_load(void* shared, const TensorMap& map, int row, int col,
                                uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(tile_address(shared)),
      "l"(&map), "r"(col), "r"(row), "r"(tile_address(barrier))
      : "memory");
}
// Four 8 x 8 matrices: lane l names row l % 8 of matrix l / 8, a chunk of 16 bytes.
__device__ inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(tile_address(row))
               : "memory");
}
__device__ inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(tile_address(row))
               : "memory");
}

// wgmma, by all threads of a warpgroup: fence, products, commit, wait ----------------------------

__device__ inline void wgmma_fence() { SM90A_ASM("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  SM90A_ASM("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Returns when at most PENDING groups are in flight.
template <int PENDING>
__device__ void wgmma_wait() {
  SM90A_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from using the sums too early. It belongs behind the last wait.
__device__ inline void fence_operand(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
// d += A * B for 64 x 128 of C and 16 of k, by descriptors. A is K-major, B MN-major.
// d[4 j + r] of thread 32 w + 4 g + t: row 16 w + g + r / 2 * 8, column 8 j + 2 t + r % 2.
__device__ inline void wgmma(float (&d)[64], uint64_t a, uint64_t b) {
#define SUMS(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS16(i) SUMS(i), SUMS(i + 4), SUMS(i + 8), SUMS(i + 12)
  SM90A_ASM(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
      "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 1;"
      : SUMS16(0), SUMS16(16), SUMS16(32), SUMS16(48)
      : "l"(a), "l"(b));
#undef SUMS16
#undef SUMS
}

// Registers per thread from here on, for a whole warpgroup. `inc` waits until others gave theirs.
template <int REGISTERS>
__device__ void setmaxnreg_inc() {
  SM90A_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ void setmaxnreg_dec() {
  SM90A_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#else  // the simulator
#include "own/hopper.h"
#endif

// The host's half --------------------------------------------------------------------------------

// The tensor map of a row-major matrix, in boxes of box_rows x 64, swizzled within 128 bytes.
// Chunk c of a box's row r lies at c ^ r % 8. The matrix needs rows at multiples of 16 bytes.
inline TensorMap tensor_map(const half* base, int rows, int cols, int ld, int box_rows) {
  TensorMap map{};
  if (rows == 0 || cols == 0) return map;  // nobody may use it
#ifdef __CUDACC__
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                     &status);
    return (decltype(&cuTensorMapEncodeTiled))found;
  }();
  const cuuint64_t sizes[] = {cuuint64_t(cols), cuuint64_t(rows)}, strides[] = {ld * sizeof(half)};
  const cuuint32_t box[] = {64, cuuint32_t(box_rows)}, steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void*)base, sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  assert(status == CUDA_SUCCESS);
#else
  map = gemm::tensor_map<gemm::half>(base, rows, cols, ld, box_rows, 64, gemm::Swizzle::b128);
#endif
  return map;
}

static __global__ void copy_rows(const half* from, int ld, half* to, int to_ld, int cols) {
  for (int col = threadIdx.x; col < cols; col += blockDim.x)
    to[(size_t)blockIdx.x * to_ld + col] = from[(size_t)blockIdx.x * ld + col];
}

// A matrix as TMA wants it, rows at multiples of 16 bytes: as it is, or a copy. It must live until
// the kernel that reads it has been launched.
class AlignedRows {
 public:
  AlignedRows(const half* base, int rows, int cols, int ld, cudaStream_t stream)
      : base(base), ld(ld), stream_(stream) {
    if (((size_t)base | ld * sizeof(half)) % 16 == 0 || rows == 0 || cols == 0) return;
    this->ld = (cols + 7) / 8 * 8;
    cudaMallocAsync(&copy_, sizeof(half) * rows * this->ld, stream);
    copy_rows<<<rows, 256, 0, stream>>>(base, ld, copy_, this->ld, cols);
    this->base = copy_;
  }
  ~AlignedRows() {
    if (copy_ != nullptr) cudaFreeAsync(copy_, stream_);
  }
  AlignedRows(const AlignedRows&) = delete;
  const half* base;
  int ld;

 private:
  half* copy_ = nullptr;
  cudaStream_t stream_;
};
