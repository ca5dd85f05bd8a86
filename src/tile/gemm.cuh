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
// The problem of a call, in which op says how an operand is stored.
template <class T>
Problem<T> problem(const GemmArgs<T>& p) {
  const Matrix<const T> a{p.A, p.op_a == Op::N ? p.M : p.K, p.op_a == Op::N ? p.K : p.M, p.lda};
  const Matrix<const T> b{p.B, p.op_b == Op::N ? p.K : p.N, p.op_b == Op::N ? p.N : p.K, p.ldb};
  return {p.op_a == Op::N ? a : a.transposed(),
          p.op_b == Op::N ? b : b.transposed(),
          {p.C, p.M, p.N, p.ldc},
          p.epilogue};
}

// All numbers of a GEMM: what can be known when its kernel is compiled.
struct Call {
  int M = 0, N = 0, K = 0;
  Strides a = {}, b = {}, c = {};  // of op(A), (m, k); of op(B)^T, (n, k); of C, (m, n)
  bool c_vectors = false;          // C's rows are whole aligned groups of 16 bytes
  int k_tiles = 0;
  int group_m = 1;  // rows of tiles per raster group
  Epilogue epilogue = {};

  bool operator==(const Call&) const = default;
};

// What a kernel knows of its call when it is compiled: nothing. All numbers are passed to it.
struct AnyCall {
  template <class T>
  using A = Matrix<T>;
  template <class T>
  using B = Matrix<T>;
  template <class T>
  using C = Matrix<T>;
  static constexpr Vectors C_VECTORS = Vectors::ask;
  struct Numbers {
    int k_tiles;
    int group_m;
    float alpha, beta;
    Activation activation;
    float slope;  // of leaky ReLU below 0
  };
  static Numbers numbers(const Call& call) {
    const Epilogue& e = call.epilogue;
    return {call.k_tiles, call.group_m, e.alpha, e.beta, e.activation, e.slope};
  }
};
// Or all of Known::CALL: it is passed pointers. For a GPU by NVRTC alone, to which every function and
// constant is the device's.
template <class Known>
struct OneCall {
  static constexpr Call CALL = Known::CALL;
  template <class T>
  using A = FixedMatrix<T, CALL.M, CALL.K, CALL.a.row, CALL.a.col>;
  template <class T>
  using B = FixedMatrix<T, CALL.N, CALL.K, CALL.b.row, CALL.b.col>;
  template <class T>
  using C = FixedMatrix<T, CALL.M, CALL.N, CALL.c.row, CALL.c.col>;
  static constexpr Vectors C_VECTORS = CALL.c_vectors ? Vectors::yes : Vectors::no;
  struct Numbers {
    static constexpr int k_tiles = CALL.k_tiles, group_m = CALL.group_m;
    static constexpr float alpha = CALL.epilogue.alpha, beta = CALL.epilogue.beta;
    static constexpr Activation activation = CALL.epilogue.activation;
    static constexpr float slope = CALL.epilogue.slope;
  };
  static Numbers numbers(const Call&) { return {}; }
};

// Views in tiles of Loop's sizes.
template <class Loop>
struct Views {
  typename Loop::ViewA A;  // (BM, BK)
  typename Loop::ViewB B;  // (BK, BN)
  typename Loop::ViewC C;  // (BM, BN)
};
// What a kernel is passed, as `const __grid_constant__ Gemm<Loop> p`: views, and the numbers.
template <class Loop>
struct Gemm : Views<Loop>, Loop::Known::Numbers {};

// The kernel for a loop: kernel_of(Loop()), or kernel_of(Loop(), call) of one that is made for it.
template <class Loop, class KernelOf>
auto kernel_for(KernelOf&& kernel_of, const Call& call) {
  if constexpr (std::is_invocable_v<KernelOf, Loop, const Call&>)
    return kernel_of(Loop(), call);
  else
    return kernel_of(Loop());
}

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
