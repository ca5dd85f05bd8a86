// Factors on estimates, by a neural network with one hidden layer. Host only.
#pragma once

namespace gemm {

inline constexpr double MOST_CORRECTED = 0.3;  // how far a factor may be from 1

typedef float EightUnits __attribute__((vector_size(32)));  // hidden units, in one register of AVX

// A network of 8 * GROUPS hidden units. Its weights are fitted to times (scripts/common/estimates.py).
template <int INPUTS, int GROUPS>
struct Correction {
  EightUnits weights[INPUTS][GROUPS], bias[GROUPS], last[GROUPS];

  double factor(const float (&inputs)[INPUTS]) const {
    const auto bounded = [](auto x) { return x / (1 + (x < 0 ? -x : x)); };
    // All groups of units side by side: sums that wait for nothing but themselves.
    EightUnits units[GROUPS];
    for (int g = 0; g < GROUPS; ++g) units[g] = bias[g];
    for (int i = 0; i < INPUTS; ++i)
#pragma GCC unroll 4
      for (int g = 0; g < GROUPS; ++g) units[g] += weights[i][g] * inputs[i];
    float sum = 0;
    for (int g = 0; g < GROUPS; ++g) {
      const EightUnits out = last[g] * bounded(units[g]);
      for (int u = 0; u < 8; ++u) sum += out[u];
    }
    return 1 + MOST_CORRECTED * bounded(sum);
  }
};

}  // namespace gemm
