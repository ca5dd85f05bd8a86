// How tensor cores add: exact products and the accumulator, aligned to the largest exponent of all,
// cut, and summed as integers. An H200 gave these bits: bench/limits/fp8_bits.cu asked it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace gemm::sim {

// What one instruction does to one element of its accumulator. Products are not normalised: the
// exponent of a * b is the sum of their exponents, its significand in [0, 4). All are cut towards
// zero to `fraction_bits` below the largest exponent, and added exactly. The sum is normalised and
// cut, again towards zero, to `result_bits` of fraction. bench/limits/fit_tensor_sums.cpp finds the
// numbers in what a card has computed.
struct TensorSum {
  int fraction_bits, result_bits;
  int group;  // products that are added at once; an instruction's, or a part of them
  bool
      zeros_align;  // whether a product of 0 takes part in the largest exponent, as a subnormal does
};
// FP8 on Hopper: 14 bits of a sum, the leading one included, so that 2^14 + 1 is lost. An H200's
// 51,271 sums of e4m3 and e5m2 are these, bit for bit: plots/results/h200/fp8_bits.json.
// First published in DeepSeek-V3's report, 3.5.2, and in SageAttention2.
constexpr TensorSum FP8_SUM{13, 13, 32, false};

// A finite number: significand * 2^(exponent - fraction), |significand| < 2^(fraction + 2).
struct TensorTerm {
  int64_t significand;
  int exponent, fraction;
};

// The term, cut towards zero to units of 2^(largest - fraction_bits).
inline int64_t aligned(const TensorTerm& t, int largest, int fraction_bits) {
  const int left = fraction_bits - t.fraction - (largest - t.exponent);
  const int64_t magnitude = std::abs(t.significand);
  const int64_t cut = left >= 0 ? magnitude << left : left > -63 ? magnitude >> -left : 0;
  return t.significand < 0 ? -cut : cut;
}

// sum * 2^exponent, cut towards zero to `result_bits` of fraction, and to a float.
inline float cut_sum(int64_t sum, int exponent, int result_bits) {
  uint64_t magnitude = static_cast<uint64_t>(std::abs(sum));
  if (magnitude == 0) return 0;
  const int width = 64 - std::countl_zero(magnitude);
  // The bits that are lost: more of a subnormal float.
  const int lost = std::max(width - 1 - result_bits, -149 - exponent);
  if (lost > 0) magnitude = lost > 63 ? 0 : magnitude >> lost << lost;
  const double value = std::ldexp(static_cast<double>(magnitude), exponent);
  return static_cast<float>(sum < 0 ? -value : value);
}

// What becomes of the finite accumulator `sum`.
inline float add_products(const TensorSum& model, std::span<const TensorTerm> products, float sum) {
  constexpr int NONE = -100000;
  for (size_t first = 0; first < products.size(); first += model.group) {
    const auto group = products.subspan(first, model.group);
    const auto bits = std::bit_cast<uint32_t>(sum);
    const int field = static_cast<int>(bits >> 23 & 0xff);
    const int64_t magnitude = (bits & 0x7fffff) | (field == 0 ? 0 : 0x800000);
    const TensorTerm old{bits >> 31 ? -magnitude : magnitude, std::max(field, 1) - 127, 23};
    int largest = magnitude == 0 ? NONE : old.exponent;
    for (const TensorTerm& t : group)
      if (t.significand != 0 || model.zeros_align) largest = std::max(largest, t.exponent);
    int64_t total = aligned(old, largest, model.fraction_bits);
    for (const TensorTerm& t : group) total += aligned(t, largest, model.fraction_bits);
    sum = cut_sum(total, largest - model.fraction_bits, model.result_bits);
  }
  return sum;
}

}  // namespace gemm::sim
