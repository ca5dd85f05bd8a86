// Median, spread and uncertainty of samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gemm {

// Median and spread over samples.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};

inline double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (at - static_cast<double>(below)) * (samples[above] - samples[below]);
}

inline Spread spread(const std::vector<double>& samples) {
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

// Half the width of the 95 % confidence interval of the median, relative to it. From p10 and p90,
// so that a few samples that something disturbed do not count: of a normal distribution they lie
// 2.563 standard deviations apart, and a median of n has the standard error 1.253 sigma / sqrt(n).
inline double median_uncertainty(const std::vector<double>& samples) {
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  const Spread s = spread(samples);
  const double sigma = (s.p90 - s.p10) / 2.563;
  return 1.96 * 1.253 * sigma / std::sqrt(static_cast<double>(samples.size())) / s.median;
}

}  // namespace gemm
