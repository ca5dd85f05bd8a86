// What the matrices hold: each element is a function of its place, the same on CPU and GPU.
#pragma once

#include <cmath>
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
  products,  // an element of C is one product, or one number added to none; all bits of each are used
  uniform,  // uniform in [-1, 1), multiples of 2^-23
};

// Mixes (seed, index) into 64 well-spread bits (the finaliser of SplitMix64, Steele et al. 2014).
GEMM_INLINE_ANYWHERE uint64_t mix(uint64_t seed, uint64_t index) {
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

// Powers of two near the ends of a type's range, for Problem::wide_range: how far a number of usual
// size is moved so that it and its products stay normal, and the least subnormal number.
struct Exponents {
  int wide, least;
};
GEMM_HOST_DEVICE constexpr Exponents exponents(Element element) {
  switch (element) {
    case Element::f32:
      return {60, -149};
    case Element::f16:
      return {12, -24};
    case Element::bf16:
      return {60, -133};
    case Element::f8e4m3:
      return {4, -9};
    case Element::f8e5m2:
      return {11, -16};
  }
  return {0, 0};
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
        reads_c_(p.beta != 0),
        turned_(p.turned),
        wide_range_(p.wide_range),
        tensor_32_(info(p.dtype).unit == Unit::tensor_32),
        in_(info(p.dtype).in),
        out_(info(p.dtype).out),
        bits_(info(p.dtype).bits) {
    for (int operand = 0; operand < 3; ++operand) seeds_[operand] = seed * 3 + operand;
    for (int operand = 3; operand < OPERANDS; ++operand)
      seeds_[operand] = (seed + 1) * 1009 + operand;
    start_m_ = M_ > 0 ? mix(seeds_[ROWS], 1) % M_ : 0;
    start_n_ = N_ > 0 ? mix(seeds_[COLUMNS], 1) % N_ : 0;
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
    // What is left over of a sum: with A's integers a bit more than C's type holds, so that many
    // results lie half way between two of its numbers. 1 where they may be rounded before the end.
    const bool rounded_once =
        p.product_error == 0 && !operands_.any() && !p.gated && p.activation == Activation::none;
    const int out_bits = info(out_).bits;
    left_over_ = !rounded_once || out_bits == 24 ? 1 : bits_ < 8 ? 20 : (1 << (out_bits - 3)) + 1;
    if (room < 8 * a_most * left_over_) left_over_ = 1;
    room -= a_most * left_over_;
    // B's integers come in threes, of which the last is as large as the others together: b_most_.
    // Products of more than 11 bits, so that half precision would round each: where K is long,
    // every so many threes have them, and the others are zeros.
    third_ = static_cast<uint32_t>(K_ / 3);
    double most = (1 << (bits_ < 24 ? bits_ : 24)) - 1;
    // Promoted sums have 14 bits within a promotion.
    const double promoted = ((1 << FAST_SUM_BITS) - a_most * left_over_) / (a_most * PROMOTED_K);
    if ((sums == Accumulation::promoted || sums == Accumulation::scaled) && most > promoted)
      most = promoted;
    const double least = bits_ < 8 ? 2 : most < 1023 ? most : 1023;
    const double each = room / (2 * a_most * (third_ > 0 ? third_ : 1));
    const double b_most = each < least ? least : each < most ? each : most;
    b_most_ = static_cast<uint32_t>(b_most);
    const double threes = room / (2 * a_most * b_most_) - 1;  // that there is room for
    every_ = threes < 1 ? 0 : static_cast<uint32_t>(third_ / threes) + 1;
    if (each >= b_most) every_ = 1;
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
  // stored() of one product. No function here calls itself: a GPU's stack is too small for that.
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
    const bool all = operands_.scales() == 0 &&
                     (operand == Operand::scales_a ? is_unit_row(i) : is_unit_block(i, k_block));
    return all ? scale_of_all_bits(mix(seed, index)) : static_cast<float>(1 + mix(seed, index) % 2);
  }

  GEMM_HOST_DEVICE double result_of_one(const Problem& p, int64_t m, int64_t n) const {
    double product = 0;
    if (K_ > 0 && p.alpha != 0) {
      const int64_t k = single_k(n);
      product = double{a(m, k)} * (kind_ == Inputs::sums ? left_over(n) : b(k, n));
      if (block_scales_) product *= double{scale_of_a(m, k)} * scale_of_b(k, n);
      // Infinity times one of the zeros, and NaN times any number, is NaN.
      if (is_special(row_role(m)) && (k != special_k(m) || !has_product(n))) product = NAN;
      product *= p.alpha * scale(m, n);
    }
    return product + (p.beta == 0 ? 0 : p.beta * c(m, n)) + bias(m, n);
  }

  // Single products
  //
  // A column has one product or none, and then a bias or a C: whatever makes an element of C uses all
  // bits of its type, and all that is exact is compared bit for bit. Likewise rows without a product
  // where there is a bias by rows. A scale uses all its bits where one factor is a power of two.
  GEMM_HOST_DEVICE bool has_product(int64_t n) const {
    if (kind_ != Inputs::products) return true;
    const int none_in = reads_c_ || operands_.biases() > 0 ? 2 : 8;
    return from_start(n, start_n_, N_) < ROLES || is_turned(n, start_n_, N_) ||
           column(n) % none_in != 0;
  }
  GEMM_HOST_DEVICE bool has_bias(int64_t n) const {
    return operands_.bias && !has_product(n) && column(n) >> 8 & 1;
  }
  GEMM_HOST_DEVICE bool is_zero_row(int64_t m) const {
    return operands_.row_bias && row(m) % 4 == 1 && !is_turned(m, start_m_, M_);
  }
  GEMM_HOST_DEVICE bool is_unit_row(int64_t m) const {
    return (operands_.scale_rows || block_scales_) && row(m) >> 8 & 1;
  }
  GEMM_HOST_DEVICE bool is_unit_block(int64_t n_block, int64_t k_block) const {
    return block_scales_ && (n_block + k_block) % 2 == 0;
  }
  GEMM_HOST_DEVICE bool is_unit_column(int64_t n, int64_t k) const {
    return operands_.scale_columns ? column(n) >> 16 & 1
                                   : is_unit_block(n / BlockScales::N, k / BlockScales::K);
  }
  GEMM_HOST_DEVICE uint64_t row(int64_t m) const { return mix(seeds_[ROWS] + 3, m); }
  GEMM_HOST_DEVICE uint64_t column(int64_t n) const { return mix(seeds_[COLUMNS] + 3, n); }
  // The last row or column from the start has its sign turned where the problem says so.
  GEMM_HOST_DEVICE static bool is_turned(int64_t i, int64_t start, int64_t extent) {
    return from_start(i, start, extent) == extent - 1;
  }
  GEMM_HOST_DEVICE static int64_t from_start(int64_t i, int64_t start, int64_t extent) {
    return i >= start ? i - start : i - start + extent;
  }

  // What a row of A, a column of B or an element of C holds with Problem::wide_range.
  enum class Role { not_a_number, infinite, subnormal, large, small, usual };
  static constexpr int ROLES = static_cast<int>(Role::usual);
  // Single rows and columns have the first two; more of them the others.
  GEMM_HOST_DEVICE Role role(int64_t from_start, int64_t extent, uint64_t random) const {
    if (!wide_range_) return Role::usual;
    if (from_start < ROLES && extent >= 2 * ROLES) {
      const Role its = static_cast<Role>(from_start);
      return its == Role::infinite && fp8() ? Role::usual : its;
    }
    const int drawn = static_cast<int>(random >> 24) & 15;
    return drawn < 2 || drawn > ROLES ? Role::usual : static_cast<Role>(drawn);
  }
  GEMM_HOST_DEVICE Role row_role(int64_t m) const {
    return role(from_start(m, start_m_, M_), M_, row(m));
  }
  GEMM_HOST_DEVICE Role column_role(int64_t n) const {
    return role(from_start(n, start_n_, N_), N_, column(n));
  }
  // No conversion to FP8 makes an infinity.
  GEMM_HOST_DEVICE bool fp8() const { return in_ == Element::f8e4m3 || in_ == Element::f8e5m2; }
  GEMM_HOST_DEVICE static bool is_special(Role role) {
    return role == Role::not_a_number || role == Role::infinite;
  }
  // The place of the one element of a row of A that is no number.
  GEMM_HOST_DEVICE int64_t special_k(int64_t m) const {
    return static_cast<int64_t>(row(m) % static_cast<uint64_t>(K_));
  }

  // A number of `bits` significant bits, or a power of two, of that role in its type.
  GEMM_HOST_DEVICE float number(uint64_t random, Element element, int bits, bool unit,
                                Role role) const {
    const Exponents e = exponents(element);
    const float sign = random >> 63 ? -1.0f : 1.0f;
    const uint32_t odd = (static_cast<uint32_t>(random) & ((1u << (bits - 1)) - 1)) | 1u;
    if (role == Role::not_a_number) return NAN;
    if (role == Role::infinite) return sign * INFINITY;
    if (role == Role::subnormal && !tensor_32_)  // TF32's have fewer bits
      return sign * ldexpf(static_cast<float>(unit ? 1 : odd >> 1 | 1), e.least);
    const int moved = role == Role::large ? e.wide : role == Role::small ? -e.wide : 0;
    const float significand = static_cast<float>((1u << (bits - 1)) | (unit ? 0 : odd));
    const float usual =
        4.0f / static_cast<float>(1u << (bits - 1 + (random >> 32) % 5)) * significand;
    return sign * (moved == 0 ? usual : ldexpf(usual, moved));
  }
  GEMM_HOST_DEVICE static float scale_of_all_bits(uint64_t random) {  // 1 .. 2
    return 1 + static_cast<float>(random % (1 << 23) | 1) / (1 << 23);
  }
  GEMM_HOST_DEVICE float all_bits_of_c(int operand, int64_t index) const {
    const uint64_t random = mix(seeds_[operand], index);
    if ((random >> 48 & 15) == 0) return 0;
    const Role drawn =
        wide_range_ && random >> 40 & 1 ? static_cast<Role>((random >> 41) % 6) : Role::usual;
    return number(random, out_, info(out_).bits, false, drawn);
  }

  // Elements of vectors. Scales are 1 or 2 where a sum or a factor has all bits.
  GEMM_HOST_DEVICE float bias_element(Operand operand, int64_t i) const {
    const int at = static_cast<int>(operand);
    if (kind_ == Inputs::uniform) return random_value(seeds_[at], i);
    if (kind_ != Inputs::products) return small_integer(at, i);
    const bool there = operand == Operand::bias ? has_bias(i) : is_zero_row(i);
    return there ? all_bits_of_c(at, i) : 0;
  }
  GEMM_HOST_DEVICE float scale_element(Operand operand, int64_t i) const {
    const int at = static_cast<int>(operand);
    if (kind_ == Inputs::uniform) return 1 + random_value(seeds_[at], i) / 2;
    const bool all = kind_ == Inputs::products &&
                     (operand == Operand::scale_rows ? is_unit_row(i) : is_unit_column(i, 0));
    return all ? scale_of_all_bits(mix(seeds_[at], i))
               : static_cast<float>(1 + mix(seeds_[at], i) % 2);
  }

  // The generator of one product of a batch. No two hold the same, but for operands that they share.
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
    if (kind_ != Inputs::products) return small_integer(2, m * N_ + n);
    return has_product(n) || has_bias(n) || is_zero_row(m) ? 0 : all_bits_of_c(2, m * N_ + n);
  }
  GEMM_HOST_DEVICE float a(int64_t m, int64_t k) const {
    if (kind_ == Inputs::integers) return small_integer(0, m * K_ + k);
    if (kind_ == Inputs::sums)
      return static_cast<float>(a_half_ + mix(seeds_[0], m * K_ + first_of_three(k)) %
                                              static_cast<uint64_t>(a_half_));
    if (is_zero_row(m)) return 0;
    const Role its = row_role(m);
    const bool usual = is_special(its) && k != special_k(m);
    const float x =
        number(mix(seeds_[0], m * K_ + k), in_, bits_, is_unit_row(m), usual ? Role::usual : its);
    return turned_ && is_turned(m, start_m_, M_) ? -x : x;
  }
  GEMM_HOST_DEVICE float b(int64_t k, int64_t n) const {
    if (kind_ == Inputs::integers) return small_integer(1, k * N_ + n);
    if (kind_ == Inputs::sums) return b_of_sums(k, n);
    if (k != single_k(n) || !has_product(n)) return 0;
    const float x =
        number(mix(seeds_[1], k * N_ + n), in_, bits_, is_unit_column(n, k), column_role(n));
    return turned_ && is_turned(n, start_n_, N_) ? -x : x;
  }

  // The last third of k takes away what the others have added: a is the same in all three, and b
  // their sum's negative. Before that the sum is as large as 24 bits hold; what a narrow accumulator
  // lost of it, or a k-tile that was left out, does not come back. Nor do roundings of products: no
  // two of a three are the same.
  GEMM_HOST_DEVICE float b_of_sums(int64_t k, int64_t n) const {
    const int64_t single = single_k(n);
    if (k == single) return static_cast<float>(left_over(n));
    const int64_t first = first_of_three(k);
    // Another three in each column, spread evenly over them.
    const uint32_t shift =
        static_cast<uint64_t>(static_cast<uint32_t>(n) * 2654435769u) * every_ >> 32;
    if (every_ == 0 || third_ == 0 || k < K_ - 3 * int64_t{third_} ||
        (static_cast<uint32_t>(first) + shift) % every_ != 0 || first_of_three(single) == first)
      return 0;
    const uint64_t random = mix(seeds_[1], first * N_ + n);
    const uint32_t least = (b_most_ + 3) / 4, choices = b_most_ / 2 - least + 1;
    const auto x = static_cast<int>(least + static_cast<uint32_t>(random) % choices);
    const auto y = static_cast<int>(least + static_cast<uint32_t>(random >> 32) % choices);
    const uint32_t part = static_cast<uint32_t>(k - first) / third_;
    return static_cast<float>(part == 0 ? x : part == 1 ? y : -x - y);
  }
  // The first of the three that k belongs to. One or two at the start belong to none: k itself.
  GEMM_HOST_DEVICE int64_t first_of_three(int64_t k) const {
    const int64_t alone = K_ - 3 * int64_t{third_};
    return k < alone ? k : alone + static_cast<uint32_t>(k - alone) % third_;
  }
  // The k of the product that makes C[.][n]: of a quarter of the columns the last or the first.
  GEMM_HOST_DEVICE int64_t single_k(int64_t n) const {
    const uint64_t random = mix(seeds_[1] + 7, n);
    if (random >> 61 < 2) return random >> 61 == 0 ? K_ - 1 : 0;
    return static_cast<int64_t>(random % static_cast<uint64_t>(K_));
  }
  GEMM_HOST_DEVICE int left_over(int64_t n) const {
    return mix(seeds_[1] + 11, n) % 2 == 0 ? left_over_ : -left_over_;
  }

  GEMM_HOST_DEVICE float small_integer(int operand, int64_t index) const {
    return static_cast<float>(static_cast<int>(mix(seeds_[operand], index) % 7) - 3);
  }

  Inputs kind_;
  int64_t M_, N_, K_;
  int batch_;
  bool c_shared_, a_shared_, b_shared_;
  bool a_transposed_, b_transposed_;
  EpilogueOperands operands_;
  bool block_scales_, reads_c_, turned_, wide_range_, tensor_32_;
  Element in_, out_;
  int bits_;
  int64_t start_m_, start_n_;  // the first special row of A and column of B
  int a_half_;                 // A of `sums` holds integers from this to below twice it
  int left_over_;
  uint32_t third_, b_most_, every_;  // of K; the largest of B in `sums`; 0: no threes
  static constexpr int OPERANDS = static_cast<int>(Operand::scales_b) + 1;
  // What rows and columns are drawn by: the same for all products of a batch.
  static constexpr int ROWS = static_cast<int>(Operand::scale_rows),
                       COLUMNS = static_cast<int>(Operand::scale_columns);
  uint64_t seeds_[OPERANDS];  // by Operand
};

// What fills the guards and the gap between columns and ld. A and B: NaN (0x7FFF in f16, 0x7FFFFFFF
// in f32), so that a stray read poisons the result. C: these bits (repeated 16-bit pattern 0xA5C3),
// so that a stray write is seen.
constexpr uint16_t CANARY = 0xA5C3;

}  // namespace gemm
