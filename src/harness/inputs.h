// What the matrices hold: each element is a function of its place, the same on CPU and GPU.
#pragma once

#include <cstdint>

#include "gemm_types.h"
#include "harness/problem.h"

namespace gemm {

// The seed of the uniform inputs that are verified and, as the first set, timed.
constexpr uint64_t SEED = 2026;

// docs/how_a_wrong_kernel_passes.md says what each kind finds that the others do not.
enum class Inputs {
  integers,  // -3 .. 3
  sums,      // integers whose partial sums fill a float's 24 bits, and cancel but for one product
  products,  // an element of C is one product, of two numbers that use all bits of their type
  uniform,   // uniform in [-1, 1), multiples of 2^-23
};

// Mixes (seed, index) into 64 well-spread bits (the finaliser of SplitMix64, Steele et al. 2014).
GEMM_HOST_DEVICE inline uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0x9E3779B97F4A7C15ull + index + 0x632BE59BD9B4E019ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Uniform in [-1, 1), a multiple of 2^-23.
GEMM_HOST_DEVICE inline float random_value(uint64_t seed, uint64_t index) {
  return static_cast<float>(static_cast<int>(mix(seed, index) >> 40) - (1 << 23)) *
         (1.0f / (1 << 23));
}

// Whether alpha and beta keep sums of integers exact: multiples of 1/4 no larger than 8.
GEMM_HOST_DEVICE inline bool exact_scalars(const Problem& p) {
  const auto exact = [](float x) {
    return x >= -8 && x <= 8 && x * 4 == static_cast<float>(static_cast<int>(x * 4));
  };
  return exact(p.alpha) && exact(p.beta);
}

// The elements of one problem's matrices, before they are rounded to the storage type. (m, n, k) are
// indices of op(A) (M x K), op(B) (K x N) and C (M x N). Host and device code; no state.
class Generator {
 public:
  Generator(const Problem& p, Inputs kind, uint64_t seed)
      : kind_(kind),
        M_(p.M),
        N_(p.N),
        K_(p.K),
        batch_(products(p)),
        c_shared_(p.groups.count > 0),
        a_shared_(p.shared_a || c_shared_),
        b_shared_(p.shared_b),
        a_transposed_(p.op_a == Op::T),
        b_transposed_(p.op_b == Op::T),
        operands_(p.operands),
        block_scales_(info(p.dtype).has_block_scales()),
        bits_(info(p.dtype).bits) {
    for (int operand = 0; operand < 3; ++operand) seeds_[operand] = seed * 3 + operand;
    for (int operand = 3; operand < OPERANDS; ++operand)
      seeds_[operand] = (seed + 1) * 1009 + operand;
    // `sums` stay exact in any order while the sum of all |products| is below 2^24 (2^14 of FP8's
    // fast sums): in quarters, and after alpha, where the scalars ask for that.
    const Accumulation sums = info(p.dtype).accumulation;
    double room = sums == Accumulation::fast ? 1 << FAST_SUM_BITS : 1 << 24;
    if (exact_scalars(p)) {
      const bool whole = p.alpha == static_cast<int>(p.alpha) && p.beta == static_cast<int>(p.beta);
      const double alpha = (p.alpha < 0 ? -p.alpha : p.alpha) *
                           (1 << (operands_.scales() + (block_scales_ ? 2 : 0)));
      const double beta = (p.beta < 0 ? -p.beta : p.beta) + operands_.biases();
      room = (room / (whole ? 1 : 4) - 3 * beta) / (alpha > 1 ? alpha : 1);
    }
    a_half_ = bits_ < 4 ? 1 << (bits_ - 1) : 8;
    const double a_most = 2 * a_half_ - 1;
    room -= a_most;  // for the one product that is left over
    double each = room / (a_most * (p.K > 0 ? p.K : 1));
    // Promoted sums have 14 bits within a promotion.
    const double promoted = ((1 << FAST_SUM_BITS) - a_most) / (a_most * PROMOTED_K);
    if ((sums == Accumulation::promoted || sums == Accumulation::scaled) && each > promoted)
      each = promoted;
    const double most = (int64_t{1} << bits_) - 2;  // 1 below the largest: see b_of_sums
    b_most_ = each >= most ? static_cast<int64_t>(most)
              : each >= 1  ? static_cast<int64_t>(each)
                           : 1;
    every_ = each >= 1 ? 1 : static_cast<int64_t>(1 / each) + 1;
  }

  // The element of a stored matrix, or of a vector: row 0. A residual is what C would be. Of a batch,
  // matrices by their row of all (MatrixLayout).
  GEMM_HOST_DEVICE float stored(Operand operand, int64_t row, int64_t col) const {
    if (operand == Operand::residual) operand = Operand::C;
    if (operand == Operand::bias || operand == Operand::row_bias) return bias_element(operand, col);
    if (operand == Operand::scale_rows || operand == Operand::scale_columns)
      return scale_element(operand, col);
    if (batch_ == 1) return stored_of_one(operand, row, col);
    const int64_t rows = stored_rows(operand), product = row / rows;
    return of_product(product).stored_of_one(operand, row - product * rows, col);
  }

  // The scale of the block that an element of A or B lies in, by its place as stored: 1 of types
  // without. Of a batch by its row of all.
  GEMM_HOST_DEVICE float block_scale(Operand operand, int64_t row, int64_t col) const {
    if (!block_scales_) return 1;
    if (batch_ == 1) return block_scale_of_one(operand, row, col);
    const int64_t rows = stored_rows(operand), product = row / rows;
    return of_product(product).block_scale_of_one(operand, row - product * rows, col);
  }

  // What the epilogue's scales make of a product at (m, n), and, but for rounding to C's type, what
  // its biases add. Of a batch, m is a row of all: vectors are the same for all products.
  GEMM_HOST_DEVICE double scale(int64_t m, int64_t n) const {
    if (batch_ > 1) m %= M_;
    return (operands_.scale_rows ? double{scale_element(Operand::scale_rows, m)} : 1) *
           (operands_.scale_columns ? double{scale_element(Operand::scale_columns, n)} : 1);
  }
  GEMM_HOST_DEVICE double bias(int64_t m, int64_t n) const {
    if (batch_ > 1) m %= M_;
    return (operands_.bias ? double{bias_element(Operand::bias, n)} : 0) +
           (operands_.row_bias ? double{bias_element(Operand::row_bias, m)} : 0);
  }

  // C[m][n] after the call and before the activation, of `sums` and `products`: only one product of
  // two elements is left. Exact as a double. Of a batch, m is a row of all; so it is of groups, whose
  // A and C are one matrix each.
  GEMM_HOST_DEVICE double result(const Problem& p, int64_t m, int64_t n) const {
    if (batch_ == 1) return result_of_one(p, m, n);
    const int64_t row = c_shared_ ? m : m % M_;
    return of_product(product_of_row(p, m)).result_of_one(p, row, n);
  }

 private:
  // The same of one product. No function here calls itself: a GPU's stack is too small for that.
  GEMM_HOST_DEVICE float stored_of_one(Operand operand, int64_t row, int64_t col) const {
    if (operand == Operand::scales_a) return scale_of_block(operand, col, row);
    if (operand == Operand::scales_b) return scale_of_block(operand, row, col);
    const bool is_a = operand == Operand::A, is_b = operand == Operand::B;
    const bool swapped = (is_a && a_transposed_) || (is_b && b_transposed_);
    if (kind_ == Inputs::uniform) {
      const int64_t stored_cols = is_a ? (swapped ? M_ : K_) : is_b && swapped ? K_ : N_;
      return random_value(seeds_[static_cast<int>(operand)], row * stored_cols + col);
    }
    const int64_t i = swapped ? col : row, j = swapped ? row : col;
    return is_a ? a(i, j) : is_b ? b(i, j) : c(i, j);
  }

  GEMM_HOST_DEVICE float block_scale_of_one(Operand operand, int64_t row, int64_t col) const {
    const bool is_a = operand == Operand::A, swapped = is_a ? a_transposed_ : b_transposed_;
    const int64_t i = swapped ? col : row, j = swapped ? row : col;
    return is_a ? scale_of_a(i, j) : scale_of_b(i, j);
  }
  // By the indices of op(A) and op(B).
  GEMM_HOST_DEVICE float scale_of_a(int64_t m, int64_t k) const {
    return scale_of_block(Operand::scales_a, m, k / BlockScales::K);
  }
  GEMM_HOST_DEVICE float scale_of_b(int64_t k, int64_t n) const {
    return scale_of_block(Operand::scales_b, n / BlockScales::N, k / BlockScales::K);
  }
  // A row of A's, or block row of B's, and a block of k. Few bits where results are to be exact; of
  // `sums` the same for all k, or they would not cancel.
  GEMM_HOST_DEVICE float scale_of_block(Operand operand, int64_t i, int64_t k_block) const {
    const uint64_t seed = seeds_[static_cast<int>(operand)];
    if (kind_ == Inputs::sums) return static_cast<float>(1 + mix(seed, i) % 2);
    const int64_t index = i * ((K_ + BlockScales::K - 1) / BlockScales::K) + k_block;
    if (kind_ == Inputs::uniform) return 1 + random_value(seed, index) / 2;
    return 1 + static_cast<float>(mix(seed, index) % 4) / 4;
  }

  GEMM_HOST_DEVICE double result_of_one(const Problem& p, int64_t m, int64_t n) const {
    double product = 0;
    if (K_ > 0) {
      const int64_t k = single_k(n);
      product = double{a(m, k)} * (kind_ == Inputs::sums ? left_over(n) : b(k, n));
      if (block_scales_) product *= double{scale_of_a(m, k)} * scale_of_b(k, n);
    }
    return p.alpha * scale(m, n) * product + p.beta * c(m, n) + bias(m, n);
  }

  // Elements of vectors. Scales are 1 or 2 where results are to be exact; single products have no
  // bias, as they have no C.
  GEMM_HOST_DEVICE float bias_element(Operand operand, int64_t i) const {
    const int at = static_cast<int>(operand);
    if (kind_ == Inputs::uniform) return random_value(seeds_[at], i);
    return kind_ == Inputs::products ? 0 : small_integer(at, i);
  }
  GEMM_HOST_DEVICE float scale_element(Operand operand, int64_t i) const {
    const int at = static_cast<int>(operand);
    if (kind_ == Inputs::uniform) return 1 + random_value(seeds_[at], i) / 2;
    return static_cast<float>(1 + mix(seeds_[at], i) % 2);
  }

  // Of one product of a batch: no two hold the same, but for operands that they share.
  GEMM_HOST_DEVICE Generator of_product(int64_t product) const {
    Generator one = *this;
    one.batch_ = 1;
    const uint64_t step =
        static_cast<uint64_t>(product) * 3000009;  // a multiple of 3, as in seeds_
    if (!a_shared_) one.seeds_[0] += step, one.seeds_[static_cast<int>(Operand::scales_a)] += step;
    if (!b_shared_) one.seeds_[1] += step, one.seeds_[static_cast<int>(Operand::scales_b)] += step;
    if (!c_shared_) one.seeds_[2] += step;
    return one;
  }
  GEMM_HOST_DEVICE int64_t stored_rows(Operand operand) const {
    if (operand == Operand::A) return a_transposed_ ? K_ : M_;
    if (operand == Operand::B) return b_transposed_ ? N_ : K_;
    if (operand == Operand::scales_a) return (K_ + BlockScales::K - 1) / BlockScales::K;
    if (operand == Operand::scales_b) return (N_ + BlockScales::N - 1) / BlockScales::N;
    return M_;
  }

  // Elements of matrices, not of `uniform`.
  GEMM_HOST_DEVICE float c(int64_t m, int64_t n) const {
    return kind_ == Inputs::products ? 0 : small_integer(2, m * N_ + n);
  }
  GEMM_HOST_DEVICE float a(int64_t m, int64_t k) const {
    if (kind_ == Inputs::integers) return small_integer(0, m * K_ + k);
    if (kind_ == Inputs::products) return all_bits(0, m * K_ + k);
    return static_cast<float>(a_half_ + mix(seeds_[0], m * K_ + first_of_pair(k)) %
                                            static_cast<uint64_t>(a_half_));
  }
  GEMM_HOST_DEVICE float b(int64_t k, int64_t n) const {
    if (kind_ == Inputs::integers) return small_integer(1, k * N_ + n);
    if (kind_ == Inputs::products) return k == single_k(n) ? all_bits(1, k * N_ + n) : 0;
    return b_of_sums(k, n);
  }

  // The last half of k takes away what the first has added: a is the same at both ends, and b the
  // negative. Half way the sum is as large as 24 bits hold; what a narrow accumulator lost of it,
  // or a k-tile that was left out, does not come back.
  GEMM_HOST_DEVICE float b_of_sums(int64_t k, int64_t n) const {
    const int64_t first = first_of_pair(k), last = K_ - 1 - first;
    const int64_t least = (b_most_ + 1) / 2;
    int64_t value = 0;
    if (first != last && first % every_ == 0)
      value = least + static_cast<int64_t>(mix(seeds_[1], first * N_ + n) %
                                           static_cast<uint64_t>(b_most_ - least + 1));
    if (k == last) value = -value;
    return static_cast<float>(value + (k == single_k(n) ? left_over(n) : 0));
  }
  GEMM_HOST_DEVICE int64_t first_of_pair(int64_t k) const {
    return k < K_ - 1 - k ? k : K_ - 1 - k;
  }
  // The k of the product that makes C[.][n].
  GEMM_HOST_DEVICE int64_t single_k(int64_t n) const {
    return static_cast<int64_t>(mix(seeds_[1] + 7, n) % static_cast<uint64_t>(K_));
  }
  GEMM_HOST_DEVICE int left_over(int64_t n) const {
    return mix(seeds_[1] + 11, n) % 2 == 0 ? 1 : -1;
  }

  GEMM_HOST_DEVICE float small_integer(int operand, int64_t index) const {
    return static_cast<float>(static_cast<int>(mix(seeds_[operand], index) % 7) - 3);
  }
  // +-1.xx...x1 * 2^-2 .. 2^2, as many bits as the type has.
  GEMM_HOST_DEVICE float all_bits(int operand, int64_t index) const {
    const uint64_t random = mix(seeds_[operand], index);
    const auto significand =
        static_cast<float>((1u << (bits_ - 1)) | (random & ((1u << (bits_ - 1)) - 1)) | 1u);
    const float scale = 4.0f / static_cast<float>(1u << (bits_ - 1 + (random >> 32) % 5));
    return (random >> 63 ? -1.0f : 1.0f) * significand * scale;
  }

  Inputs kind_;
  int64_t M_, N_, K_;
  int batch_;
  bool c_shared_, a_shared_, b_shared_;
  bool a_transposed_, b_transposed_;
  EpilogueOperands operands_;
  bool block_scales_;
  int bits_;
  int a_half_;  // A of `sums` holds integers from this to below twice it
  int64_t b_most_, every_;
  static constexpr int OPERANDS = static_cast<int>(Operand::scales_b) + 1;
  uint64_t seeds_[OPERANDS];  // by Operand
};

// What fills the guards and the gap between columns and ld. A and B: NaN (0x7FFF in f16, 0x7FFFFFFF
// in f32), so that a stray read poisons the result. C: these bits (repeated 16-bit pattern 0xA5C3),
// so that a stray write is seen.
constexpr uint16_t CANARY = 0xA5C3;

}  // namespace gemm
