// Copies of operands with unaligned rows, for TMA and 16-byte copies.
#pragma once

#include "device/platform.h"
#include "device/workspace.h"

GEMM_BUILD_NAMESPACE_BEGIN

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
};

// Makes both copies by one kernel (repack.cu). Elements: float, half, bf16, FP8.
template <class T>
void repack(const RepackJob<T>& a, const RepackJob<T>& b, Stream stream);

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
    if (A.copied() || B.copied()) repack(A.job_, B.job_, stream);
  }
};

GEMM_BUILD_NAMESPACE_END
