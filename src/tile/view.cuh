// Views: a matrix in global memory, of any strides, seen as an array of tiles.
#pragma once

#include <cstring>

#include "tile/arrangement.h"
#include "tile/expression.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// Whether a thread's neighbouring elements are one access. `ask`: as the view says at run time.
enum class Vectors { no, yes, ask };

// So many bytes as one value, which one instruction moves.
template <int BYTES>
using Word = std::conditional_t<
    BYTES == 16, uint4,
    std::conditional_t<BYTES == 8, uint2,
                       std::conditional_t<BYTES == 4, uint32_t,
                                          std::conditional_t<BYTES == 2, uint16_t, uint8_t>>>>;

// Elements from a row, or from a column, to the next.
struct Strides {
  int64_t row, col;
  bool operator==(const Strides&) const = default;
};

template <class T, int ROWS, int COLS, Vectors VECTORS, class In>
struct View;

// A matrix in global memory. Element (r, c) lies at data[r * row_stride + c * col_stride]. A stride
// of 0 repeats a row or a column: that is a broadcast.
template <class T>
struct Matrix {
  T* data;
  int rows, cols;
  int64_t row_stride, col_stride = 1;

  static Matrix of(T* data, int rows, int cols, Strides strides) {
    return {data, rows, cols, strides.row, strides.col};
  }
  // Whether a row, or a column, of a tile that is computed lies in the matrix. TILE: rows or columns
  // of a tile.
  template <int TILE>
  GEMM_DEVICE bool has_row(int row) const {
    return row < rows;
  }
  template <int TILE>
  GEMM_DEVICE bool has_col(int col) const {
    return col < cols;
  }
  // Rows from the tile that begins at `row` on, or more than a tile has.
  template <int TILE>
  GEMM_DEVICE int rows_from(int row) const {
    return rows - row;
  }

  GEMM_INLINE_ANYWHERE Matrix transposed() const {
    return {data, cols, rows, col_stride, row_stride};
  }
  // Whether rows are whole groups of 16 bytes, at multiples of 16 bytes.
  GEMM_INLINE_ANYWHERE bool has_vectors() const {
    constexpr int VEC = 16 / sizeof(T);
    return col_stride == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
           row_stride % VEC == 0 && cols % VEC == 0;
  }
  // Its view in tiles.
  template <int ROWS, int COLS, Vectors VECTORS = Vectors::ask>
  GEMM_INLINE_ANYWHERE View<T, ROWS, COLS, VECTORS, Matrix> tiles() const {
    return {*this, has_vectors()};
  }
};

// A Matrix whose sizes and strides are known when a kernel is compiled. They are literals of its
// instructions, and tests of whole tiles are no instructions at all.
template <class T, int ROWS, int COLS, int64_t ROW_STRIDE, int64_t COL_STRIDE>
struct FixedMatrix {
  T* data;
  static constexpr int rows = ROWS, cols = COLS;
  static constexpr int64_t row_stride = ROW_STRIDE, col_stride = COL_STRIDE;

  // The numbers are in the type already.
  static FixedMatrix of(T* data, int, int, Strides) { return {data}; }
  template <int TILE>
  GEMM_DEVICE bool has_row(int row) const {
    return rows % TILE == 0 || row < rows;
  }
  template <int TILE>
  GEMM_DEVICE bool has_col(int col) const {
    return cols % TILE == 0 || col < cols;
  }
  template <int TILE>
  GEMM_DEVICE int rows_from(int row) const {
    return rows % TILE == 0 ? TILE : rows - row;
  }
};

// A matrix whose tiles are ROWS x COLS. In: Matrix, or FixedMatrix.
template <class T, int ROWS_, int COLS_, Vectors VECTORS = Vectors::ask, class In = Matrix<T>>
struct View : In {
  using Element = std::remove_const_t<T>;
  using Value = std::conditional_t<std::is_integral_v<Element>, int, float>;  // in registers
  static constexpr int ROWS = ROWS_, COLS = COLS_;

  bool vectors;  // rows are whole aligned groups of 16 bytes

  GEMM_DEVICE bool has_vectors() const {
    return VECTORS == Vectors::ask ? vectors : VECTORS == Vectors::yes;
  }
  GEMM_DEVICE T* at(int row, int col) const {
    return this->data + row * this->row_stride + col * this->col_stride;
  }

  // This thread's elements of tile (i, j); `other` outside of the matrix, and everywhere if !mask.
  template <class Part>
  GEMM_DEVICE void get(const Part& part, int i, int j, bool mask, Value other,
                       Value (&x)[Part::COUNT]) const {
    constexpr int VEC = Part::Layout::VEC;
#pragma unroll
    for (int e = 0; e < Part::COUNT; ++e) x[e] = other;
    if (!mask) return;
#pragma unroll
    for (int e = 0; e < Part::COUNT; e += VEC) {
      const int row = i * ROWS + part.row_of(e), col = j * COLS + part.col_of(e);
      if (has_vectors()) {
        if (!this->template has_row<ROWS>(row) || !this->template has_col<COLS>(col)) continue;
        const auto word = *reinterpret_cast<const Word<VEC * sizeof(T)>*>(at(row, col));
        Element group[VEC];
        memcpy(group, &word, sizeof word);
#pragma unroll
        for (int v = 0; v < VEC; ++v) x[e + v] = Value(group[v]);
      } else {
#pragma unroll
        for (int v = 0; v < VEC; ++v)
          if (this->template has_row<ROWS>(row) && this->template has_col<COLS>(col + v))
            x[e + v] = Value(*at(row, col + v));
      }
    }
  }
  // And back; nothing outside of the matrix.
  template <class Part>
  GEMM_DEVICE void put(const Part& part, int i, int j, const Value (&x)[Part::COUNT]) const {
    constexpr int VEC = Part::Layout::VEC;
#pragma unroll
    for (int e = 0; e < Part::COUNT; e += VEC) {
      const int row = i * ROWS + part.row_of(e), col = j * COLS + part.col_of(e);
      if (has_vectors()) {
        if (!this->template has_row<ROWS>(row) || !this->template has_col<COLS>(col)) continue;
        Element group[VEC];
#pragma unroll
        for (int v = 0; v < VEC; ++v) group[v] = Element(x[e + v]);
        Word<VEC * sizeof(T)> word;
        memcpy(&word, group, sizeof word);
        *reinterpret_cast<Word<VEC * sizeof(T)>*>(at(row, col)) = word;
      } else {
#pragma unroll
        for (int v = 0; v < VEC; ++v)
          if (this->template has_row<ROWS>(row) && this->template has_col<COLS>(col + v))
            *at(row, col + v) = Element(x[e + v]);
      }
    }
  }
};

// Tile (i, j) of a view: read when a store or a dot asks for it.
template <class View>
struct Load : Expression {
  using Value = typename View::Value;
  const View* view;
  int i, j;
  bool mask;
  Value other;
  template <class Part>
  GEMM_DEVICE void get(const Part& part, Value (&x)[Part::COUNT]) const {
    view->get(part, i, j, mask, other, x);
  }
};
// Elements outside of the matrix are `other`. If !mask, all are, and nothing is read.
template <class View>
GEMM_DEVICE Load<View> load(const View& view, int i, int j, bool mask = true,
                            typename View::Value other = 0) {
  return {{}, &view, i, j, mask, other};
}

// The tile that begins at `place`, of an arrangement in the view's own tiles.
template <class View>
GEMM_DEVICE Load<View> load(const View& view, Place place) {
  return load(view, place.row / View::ROWS, place.col / View::COLS);
}

// sum += a * b, in the main loop that `sum` belongs to.
template <class A, class B, class Sum>
GEMM_DEVICE void dot(const Load<A>& a, const Load<B>& b, Sum& sum) {
  sum.dot(a, b);
}

// Computes an expression and stores it as tile (i, j), PART elements of a thread at a time.
template <class Layout, int PART = Layout::SIZE, class View, Tile E>
GEMM_DEVICE void store(const View& view, int i, int j, const E& e) {
  for_each_part<Layout, PART>([&](const auto& part) {
    typename std::remove_cvref_t<E>::Value x[PART];
    e.get(part, x);
    typename View::Value y[PART];
#pragma unroll
    for (int v = 0; v < PART; ++v) y[v] = typename View::Value(x[v]);
    view.put(part, i, j, y);
  });
}

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
