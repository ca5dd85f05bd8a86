// A GEMM's views, and the loop over its tiles: what all main loops share.
#pragma once

#include "device/gemm_args.h"
#include "device/scheduler.cuh"
#include "tile/view.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace tile {

// The type of C's elements, by that of A's and B's.
template <class T>
using Output = std::conditional_t<std::is_same_v<T, int8_t>, int, T>;

// A GEMM on the host: C = act(alpha * A * B + beta * C), matrices of any strides. A transposed
// operand is one with exchanged strides.
template <class T>
struct Problem {
  Matrix<const T> A, B;
  Matrix<Output<T>> C;
  Epilogue epilogue;
};
// Of a call, in which op says how an operand is stored.
template <class T>
Problem<T> problem(const GemmArgs<T>& p) {
  const Matrix<const T> a{p.A, p.op_a == Op::N ? p.M : p.K, p.op_a == Op::N ? p.K : p.M, p.lda};
  const Matrix<const T> b{p.B, p.op_b == Op::N ? p.K : p.N, p.op_b == Op::N ? p.N : p.K, p.ldb};
  return {p.op_a == Op::N ? a : a.transposed(),
          p.op_b == Op::N ? b : b.transposed(),
          {p.C, p.M, p.N, p.ldc},
          p.epilogue};
}

// What a kernel is passed, as `const __grid_constant__ Gemm<Loop> p`: views in tiles of Loop's sizes.
template <class Loop>
struct Gemm {
  typename Loop::ViewA A;  // (BM, BK)
  typename Loop::ViewB B;  // (BK, BN)
  typename Loop::ViewC C;  // (BM, BN)
  int k_tiles;
  int group_m;  // rows of tiles a raster group
  float alpha, beta;
  Activation activation;
  float slope;  // of leaky ReLU below 0
};

// The tiles of C that a CTA computes: every `step`-th from `first` on, in raster groups. An int
// counts them: 2^31 tiles would be more memory than a GPU has. Ready::at(m, n) is called with the
// coordinates of each tile before the program goes on with it.
template <class Ready>
class TileRange {
 public:
  GEMM_DEVICE TileRange(int first, int step, int tiles_m, int tiles_n, int group_m)
      : first_(first),
        end_(tiles_m * tiles_n),
        step_(step),
        tiles_m_(tiles_m),
        tiles_n_(tiles_n),
        group_m_(raster_group_size(tiles_m, group_m)) {}

  struct Iterator {
    const TileRange& range;
    int tile;
    GEMM_DEVICE TileIndex operator*() const {
      auto [m, n] = grouped_tile(tile, range.tiles_m_, range.tiles_n_, range.group_m_);
      Ready::at(m, n);
      return {m, n};
    }
    GEMM_DEVICE Iterator& operator++() {
      tile += range.step_;
      return *this;
    }
    GEMM_DEVICE bool operator!=(int end) const { return tile < end; }
  };
  GEMM_DEVICE Iterator begin() const { return {*this, first_}; }
  GEMM_DEVICE int end() const { return end_; }

 private:
  int first_, end_, step_, tiles_m_, tiles_n_, group_m_;
};

}  // namespace tile
GEMM_BUILD_NAMESPACE_END
