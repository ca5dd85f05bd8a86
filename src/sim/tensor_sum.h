// How tensor cores add: exact products and the accumulator, aligned to the largest exponent of all,
// cut, and summed as integers (measured on Hopper: bench/limits/fp8_bits.cu).
#pragma once

namespace gemm::sim {

// What one instruction does to one element of its accumulator. Products are not normalised: the
// exponent of a * b is the sum of their exponents, its significand in [0, 4). All are cut towards
// zero to `fraction_bits` below the largest exponent, and added exactly. The sum is normalised and
// cut, again towards zero, to `result_bits` of fraction. scripts/fit_tensor_sums.py finds the
// numbers in what a card has computed.
struct TensorSum {
  int fraction_bits, result_bits;
  // Whether a product of 0 takes part in the largest exponent, as a subnormal does.
  bool zeros_align;
};
// FP8 keeps 14 bits of a sum, the leading one included: 2^14 + 1 is lost.
constexpr TensorSum FP8_SUM{13, 13, true};

}  // namespace gemm::sim
