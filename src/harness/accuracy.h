// How accurate is a result? Inputs of several classes, the exact product, and an error's grade.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gemm_types.h"

namespace gemm {

// One class of inputs: what the elements of A and B look like.
struct InputClass {
  const char* name;  // "wide_within"
  const char* what;  // one line
};
// All of them, in the order of the tables.
const std::vector<InputClass>& input_classes();

// A (M x K) and B (K x N), row-major without padding, every element a value of the storage type.
struct GradedInputs {
  DType dtype = DType::f32;
  int M = 0, N = 0, K = 0;
  std::vector<float> a, b;
};
// Throws std::invalid_argument for a class that is not in input_classes().
GradedInputs make_inputs(const std::string& name, DType dtype, int M, int N, int K, uint64_t seed);

// The elements as the storage type lays them out, and back.
std::vector<std::byte> to_storage(DType dtype, const std::vector<float>& values);
std::vector<double> from_storage(DType dtype, const std::vector<std::byte>& bytes);

// The product of given inputs, and what its errors are measured by.
struct ExactProduct {
  // A B, and |A||B|: M x N, row-major. In double, which is exact enough for every class, because
  // errors are measured by |A||B| and not by A B: products of floats are exact in double, and their
  // sums are off by at most K 2^-53 |A||B|, 2^-13 roundings of single precision at K = 65536.
  std::vector<double> want, magnitude;
  std::vector<double> row_norm, col_norm;  // of A's rows and B's columns, Euclidean
  double a_norm = 0, b_norm = 0;           // of A and B, Frobenius
  double condition = 0;                    // || |A||B| || / || A B ||, Frobenius
  // The largest error of `want` found against twice double's precision (Ogita, Rump and Oishi's
  // Dot2) on a sample of elements, in roundings of single precision, as a share of |A||B|.
  double reference_error = 0;
};
ExactProduct exact_product(const GradedInputs& inputs);

// Half the distance of 1 to the next number of the storage type: 2^-24, 2^-11, 2^-8.
double unit_roundoff(DType dtype);

// A result against the exact product. `A`, `B` and `C` are the largest errors as shares of three
// bounds, after Demmel, Li, Langou, Pereira, Gates and Rubio Gonzalez, "How to grade the accuracy of
// an implementation of the BLAS" (2024), whose grade A NVIDIA's sample gemm_grading tests:
//   A   |error|_ij <= (K + 2) 2^-24 (|A||B|)_ij           what every order of FP32 summation keeps
//   B   |error|_ij <= (K + 2) 2^-24 ||A_i|| ||B_j||       blind to small elements beside large ones
//   C   ||error||  <= (K + 2) 2^-24 ||A|| ||B||           blind to small rows and columns, too
// each plus the rounding of the result to 16 bits, where it has 16, and what the type loses to
// underflow. All sums are FP32, whatever the type, so 2^-24 is right for all. B implies C.
struct Errors {
  double max = 0, rms = 0;  // |error| / (|A||B|), in unit_roundoff(dtype)
  double sum_max = 0;       // the same beyond the rounding of the result, in 2^-24
  double normwise = 0;      // ||error|| / (||A|| ||B||), in unit_roundoff(dtype), Frobenius
  double of_result = 0;     // ||error|| / ||A B||, likewise
  // Where errors point, as a mean share of |A||B| in unit_roundoff(dtype): below 0 where results are
  // too low (drift) or too near to zero (shrink). What is rounded to nearest has neither.
  double drift = 0, shrink = 0;
  int64_t non_finite = 0;      // elements that are infinite or NaN where the right one is finite
  double A = 0, B = 0, C = 0;  // at most 1: the bound is kept. Infinite with non_finite elements
  char grade() const { return A <= 1 ? 'A' : B <= 1 ? 'B' : C <= 1 ? 'C' : '-'; }
};
Errors errors_of(const std::vector<double>& got, const GradedInputs& inputs,
                 const ExactProduct& exact);

}  // namespace gemm
