// K-major copies of 8-bit operands, which wgmma takes in no other layout.
#pragma once

#include "device/launch.h"
#include "device/ptx/grid.cuh"
#include "device/repack.cuh"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

constexpr int TRANSPOSE_THREADS = 256, TRANSPOSE_TILE = 128;  // k and m or n of a tile

// A transposition to make: of a K x MN matrix of bytes, `ld` from row to row, to MN rows of to_words
// words of k.
struct TransposeJob {
  const uint8_t* from;
  int64_t ld;
  int k, mn;
  uint32_t* to;
  int to_words;
  int64_t blocks() const { return int64_t{cdiv(mn, TRANSPOSE_TILE)} * cdiv(k, TRANSPOSE_TILE); }
};

// Transposes two matrices, the first by the first `blocks_a` CTAs. A thread turns 4 x 4 bytes in its
// registers; the tile goes through shared memory, so that rows of both sides are read and written
// 128 bytes at once. What lies beyond k is zero.
inline __global__ void __launch_bounds__(TRANSPOSE_THREADS)
    transpose_kernel(TransposeJob a, TransposeJob b, unsigned blocks_a) {
  constexpr int WORDS = TRANSPOSE_TILE / 4, WARPS = TRANSPOSE_THREADS / 32;
  // (mn % 4, mn / 4, k / 4): lanes write neighbouring rows, and read neighbouring words.
  __shared__ uint32_t tile[4][WORDS][WORDS + 1];
  grid_launch_dependents();
  grid_dependency_wait();
  const auto [from, ld, k_end, mn_end, to, to_words] = blockIdx.x < blocks_a ? a : b;
  const int block = blockIdx.x < blocks_a ? blockIdx.x : blockIdx.x - blocks_a;
  const int blocks_k = cdiv(k_end, TRANSPOSE_TILE);
  const int mn0 = block / blocks_k * TRANSPOSE_TILE, k0 = block % blocks_k * TRANSPOSE_TILE;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, mn = mn0 + lane * 4;
  const bool whole_words = (reinterpret_cast<uintptr_t>(from) | static_cast<uint64_t>(ld)) % 4 == 0;
#pragma unroll
  for (int i = warp; i < WORDS; i += WARPS) {
    uint32_t in[4];
#pragma unroll
    for (int row = 0; row < 4; ++row) {
      const int k = k0 + i * 4 + row;
      const uint8_t* const at = from + k * ld;
      in[row] = k >= k_end                        ? 0
                : whole_words && mn <= mn_end - 4 ? *reinterpret_cast<const uint32_t*>(at + mn)
                                                  : load_edge_word(at, mn, mn_end);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c)
      tile[c][lane][i] = (in[0] >> 8 * c & 0xff) | (in[1] >> 8 * c & 0xff) << 8 |
                         (in[2] >> 8 * c & 0xff) << 16 | (in[3] >> 8 * c & 0xff) << 24;
  }
  __syncthreads();
  for (int i = warp; i < TRANSPOSE_TILE && mn0 + i < mn_end; i += WARPS)
    to[int64_t{mn0 + i} * to_words + k0 / 4 + lane] = tile[i % 4][i / 4][lane];
}

// Both operands with k along their rows: as they are, or transposed copies in scratch memory, with
// rows padded to cache lines.
template <class T>
class TransposedPair {
  static_assert(sizeof(T) == 1, "elements of one byte");
  static int64_t padded(int k) { return int64_t{cdiv(k, TRANSPOSE_TILE)} * TRANSPOSE_TILE; }
  static TransposeJob job(const T* from, int64_t ld, int k, int mn, const Workspace& to) {
    const bool copied = to.bytes() != 0;
    return {reinterpret_cast<const uint8_t*>(from), ld, copied ? k : 0, mn, to.as<uint32_t>(),
            static_cast<int>(padded(k) / 4)};
  }
  // An operand as the kernel reads it. An empty one has no copy, but the copy's shape.
  static MatrixView<T> view(bool k_major, const T* given, int64_t ld, int k, int mn,
                            const Workspace& copy) {
    if (k_major) return {given, mn, k, ld};
    return {copy.as<T>(), mn, k, padded(k)};
  }

  const Workspace copy_a_, copy_b_;

 public:
  const MatrixView<T> a, b;

  template <class TC>
  TransposedPair(const GemmArgs<T, T, TC>& p, Stream stream)
      : copy_a_(p.op_a == Op::N ? 0 : p.M * padded(p.K), stream),
        copy_b_(p.op_b == Op::T ? 0 : p.N * padded(p.K), stream),
        a(view(p.op_a == Op::N, p.A, p.lda, p.K, p.M, copy_a_)),
        b(view(p.op_b == Op::T, p.B, p.ldb, p.K, p.N, copy_b_)) {
    const TransposeJob job_a = job(p.A, p.lda, p.K, p.M, copy_a_);
    const TransposeJob job_b = job(p.B, p.ldb, p.K, p.N, copy_b_);
    gemm::launch(transpose_kernel, job_a.blocks() + job_b.blocks(), dim3(TRANSPOSE_THREADS),
                 {.pdl = has_clusters()}, stream, job_a, job_b,
                 static_cast<unsigned>(job_a.blocks()));
  }
};

// K-major operands that TMA can address: rows at multiples of 16 bytes. To live until the kernels
// that read them have been launched. Taught in v30.
template <class T>
struct KMajorOperands : TransposedPair<T>, RepackedPair<T> {
  template <class TC>
  KMajorOperands(const GemmArgs<T, T, TC>& p, Stream stream)
      : TransposedPair<T>(p, stream),
        RepackedPair<T>(TransposedPair<T>::a, TransposedPair<T>::b, stream) {}
};

GEMM_BUILD_NAMESPACE_END
