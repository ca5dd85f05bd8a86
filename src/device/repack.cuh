// Copies of operands with unaligned rows, for TMA and 16-byte copies.
#pragma once

#include "device/current_device.h"
#include "device/launch.h"
#include "device/ptx/grid.cuh"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

constexpr int REPACK_THREADS = 256, REPACK_ROWS = REPACK_THREADS / 32;  // a warp, a row
constexpr int REPACK_UNROLL = 8;                  // loads that each thread has in flight
constexpr int REPACK_WORDS = 32 * REPACK_UNROLL;  // of a row, a block

// A 4-byte word of a row's elements from `first` on; zero outside the row.
template <class T>
GEMM_DEVICE uint32_t load_edge_word(const T* row, int first, int cols) {
  uint32_t word = 0;
#pragma unroll
  for (int e = 0; e < int(4 / sizeof(T)); ++e)
    if (first + e >= 0 && first + e < cols) {
      const T x = row[first + e];
      memcpy(reinterpret_cast<char*>(&word) + e * sizeof(T), &x, sizeof(T));
    }
  return word;
}

// A copy to make: a matrix of `ld` elements from row to row, to rows of to_words words.
template <class T>
struct RepackJob {
  const T* from;
  int64_t ld;
  int rows, cols;
  uint32_t* to;
  int to_words;
  int64_t blocks() const { return int64_t{cdiv(rows, REPACK_ROWS)} * cdiv(to_words, REPACK_WORDS); }
};

// Copies two matrices, the first by the first `blocks_a` CTAs. It goes word by word, so that a warp
// reads and writes 128 bytes at once wherever the rows begin. Narrow elements that straddle two words
// are cut out of both; the second word is the next lane's first, and comes from L1.
template <class T>
__global__ void __launch_bounds__(REPACK_THREADS)
    repack_kernel(RepackJob<T> a, RepackJob<T> b, unsigned blocks_a) {
  grid_launch_dependents();  // the kernel that reads the copies begins meanwhile, and waits
  grid_dependency_wait();
  const auto [from, ld, rows, cols, to, to_words] = blockIdx.x < blocks_a ? a : b;
  const int block = blockIdx.x < blocks_a ? blockIdx.x : blockIdx.x - blocks_a;
  const int blocks_n = cdiv(to_words, REPACK_WORDS);
  const int m = block / blocks_n * REPACK_ROWS + threadIdx.x / 32;
  const int k0 = block % blocks_n * REPACK_WORDS + threadIdx.x % 32;
  if (m >= rows) return;
  const T* row = from + m * ld;
  // Words lie at multiples of 4 bytes in memory: from the row's element -skew on.
  const int skew = reinterpret_cast<uintptr_t>(row) % 4 / sizeof(T);  // 0 to 3 bytes
  constexpr int PACK = 4 / sizeof(T), STEP = 32 * PACK;               // elements
  constexpr auto CUT = [](int skew) { return sizeof(T) == 2 ? 16 : skew * 8 * int{sizeof(T)}; };
  const int first = k0 * PACK - skew;
  uint32_t lower[REPACK_UNROLL], upper[REPACK_UNROLL] = {};
  if (first >= 0 && first <= cols - REPACK_UNROLL * STEP) {  // as a rule; all loads at once
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(row + first);
#pragma unroll
    for (int i = 0; i < REPACK_UNROLL; ++i) {
      lower[i] = words[i * 32];
      if (skew != 0) upper[i] = words[i * 32 + 1];
    }
  } else {
#pragma unroll
    for (int i = 0; i < REPACK_UNROLL; ++i) {
      lower[i] = load_edge_word(row, first + i * STEP, cols);
      if (skew != 0) upper[i] = load_edge_word(row, first + i * STEP + PACK, cols);
    }
  }
#pragma unroll
  for (int i = 0; i < REPACK_UNROLL; ++i)
    if (k0 + i * 32 < to_words)
      to[int64_t{m} * to_words + k0 + i * 32] =
          skew == 0 ? lower[i] : lower[i] >> CUT(skew) | upper[i] << (32 - CUT(skew));
}

// A row-major matrix, `ld` elements from row to row.
template <class T>
struct MatrixView {
  const T* data;
  int rows, cols;
  int64_t ld;
};

// A matrix with 16-byte aligned rows: `data` and `ld`. It is the matrix itself where that is
// aligned, else RepackedPair's copy in scratch memory, with rows padded with zeros.
template <class T>
class Repacked {
  static_assert(sizeof(T) <= 4, "elements of 1, 2 or 4 bytes");
  static constexpr int GROUP = 16 / sizeof(T);

  static bool is_aligned(const MatrixView<T>& from, bool whole_groups) {
    return reinterpret_cast<uintptr_t>(from.data) % 16 == 0 && from.ld % GROUP == 0 &&
           (!whole_groups || from.cols % GROUP == 0);
  }
  // Rows are padded to cache lines of 128 bytes. TMA reads rows of 128 bytes, and asks L2 twice for
  // a row that straddles two lines (at 4097 with a pitch of 4104: 410 us, of 4160: 254).
  static constexpr int LINE = 128 / sizeof(T);
  static int padded(int cols) { return cdiv(cols, LINE) * LINE; }

  const Workspace copy_;  // empty: none is needed
  const RepackJob<T> job_;

  template <class U>
  friend class RepackedPair;
  Repacked(const MatrixView<T>& from, Stream stream, bool whole_groups)
      : copy_(
            is_aligned(from, whole_groups) ? 0 : int64_t{from.rows} * padded(from.cols) * sizeof(T),
            stream),
        job_{from.data,
             from.ld,
             copied() ? from.rows : 0,
             from.cols,
             copy_.as<uint32_t>(),
             padded(from.cols) / int(4 / sizeof(T))},
        data(copied() ? copy_.as<T>() : from.data),
        ld(copied() ? padded(from.cols) : from.ld) {}

 public:
  const T* const data;
  const int64_t ld;

  bool copied() const { return copy_.bytes() != 0; }
};

// Both operands with aligned rows, copied on the stream by one kernel at the speed of memory. (4097
// x 4097 floats: 134 MB there and back.) With one kernel the second copy does not wait for the
// first, and no SM idles between them. Must live until the kernels that read them have been
// launched. Throws as Workspace.
template <class T>
class RepackedPair {
 public:
  const Repacked<T> A, B;
  // `whole_groups`: rows that end within a group are copied too, for a reader of whole groups.
  RepackedPair(const MatrixView<T>& a, const MatrixView<T>& b, Stream stream,
               bool whole_groups = false)
      : A(a, stream, whole_groups), B(b, stream, whole_groups) {
    gemm::launch(repack_kernel<T>, A.job_.blocks() + B.job_.blocks(), dim3(REPACK_THREADS),
                 {.pdl = has_clusters()}, stream, A.job_, B.job_,
                 static_cast<unsigned>(A.job_.blocks()));
  }
};

GEMM_BUILD_NAMESPACE_END
