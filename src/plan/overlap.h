// Times that overlap.
#pragma once

#include <cmath>

namespace gemm {

// Added as the sides of a box are, with an exponent of 2.5 instead of 2: the longest counts most.
inline double overlapping(double a, double b, double c = 0) {
  const auto power = [](double x) { return x * x * std::sqrt(x); };
  return std::pow(power(a) + power(b) + power(c), 1 / 2.5);
}

}  // namespace gemm
