// Rows that begin anywhere, copied to where 16-byte copies and TMA can address them.
#pragma once

#include "device/workspace.h"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

constexpr int REPACK_THREADS = 256, REPACK_ROWS = REPACK_THREADS / 32;  // a warp, a row
constexpr int REPACK_UNROLL = 8;                  // loads that each thread has in flight
constexpr int REPACK_WORDS = 32 * REPACK_UNROLL;  // of a row, a block

// Elements `first` and on of a row, as one word: zero where the row has none.
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

// Word by word, so that a warp reads and writes 128 bytes at once wherever the rows begin. Two
// 2-byte elements that are no word of the matrix are cut out of the two words that they lie in; the
// second is the next lane's first, and comes from L1.
template <class T>
__global__ void __launch_bounds__(REPACK_THREADS)
    repack_kernel(const T* from, int64_t ld, int rows, int cols, uint32_t* to, int to_words) {
  const int blocks_n = cdiv(to_words, REPACK_WORDS);
  const int m = blockIdx.x / blocks_n * REPACK_ROWS + threadIdx.x / 32;
  const int k0 = blockIdx.x % blocks_n * REPACK_WORDS + threadIdx.x % 32;
  if (m >= rows) return;
  const T* row = from + m * ld;
  // Words lie at multiples of 4 bytes in memory: from the row's element -skew on.
  const int skew = reinterpret_cast<uintptr_t>(row) % 4 / sizeof(T);  // 0, or 1 element of 2 bytes
  constexpr int PACK = 4 / sizeof(T), STEP = 32 * PACK;               // elements
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
          skew == 0 ? lower[i] : lower[i] >> 16 | upper[i] << 16;
}

// The rows x cols matrix at `from`, `ld` elements from row to row, in rows of whole aligned 16-byte
// groups: `data` and `ld`. That is the matrix itself where its base and its rows are aligned;
// otherwise a copy in scratch memory, its rows padded with zeros, made on the stream by a kernel
// that runs at the speed of memory (4097 x 4097 floats: 134 MB there and back). Must live until the
// kernels that read it have been launched. Throws as Workspace.
template <class T>
class Repacked {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "elements of 2 or 4 bytes");
  static constexpr int GROUP = 16 / sizeof(T);

  static bool is_aligned(const T* from, int64_t ld, int cols, bool whole_groups) {
    return reinterpret_cast<uintptr_t>(from) % 16 == 0 && ld % GROUP == 0 &&
           (!whole_groups || cols % GROUP == 0);
  }
  // To whole lines of 128 bytes: TMA reads rows of 128 bytes, and where such a row lies across two
  // lines it asks L2 twice (v24 at 4097 in rows of 4104: 410 us, of 4160: 254).
  static constexpr int LINE = 128 / sizeof(T);
  static int padded(int cols) { return cdiv(cols, LINE) * LINE; }

  const Workspace copy_;  // empty: none is needed

 public:
  const T* const data;
  const int64_t ld;

  // `whole_groups`: rows that end within a group are copied too, for a reader of whole groups.
  Repacked(const T* from, int rows, int cols, int64_t from_ld, Stream stream,
           bool whole_groups = false)
      : copy_(is_aligned(from, from_ld, cols, whole_groups)
                  ? 0
                  : int64_t{rows} * padded(cols) * sizeof(T),
              stream),
        data(copied() ? copy_.as<T>() : from),
        ld(copied() ? padded(cols) : from_ld) {
    if (!copied()) return;
    const int words = padded(cols) / (4 / sizeof(T));
    const int64_t grid = int64_t{cdiv(rows, REPACK_ROWS)} * cdiv(words, REPACK_WORDS);
    gemm::launch(repack_kernel<T>, grid, dim3(REPACK_THREADS), {}, stream, from, from_ld, rows,
                 cols, copy_.as<uint32_t>(), words);
  }
  bool copied() const { return copy_.bytes() != 0; }
};

GEMM_BUILD_NAMESPACE_END
