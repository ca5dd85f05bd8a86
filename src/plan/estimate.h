// Times that estimates have in common. Host only.
#pragma once

#include <cmath>

#include "plan/arch.h"
#include "plan/problem.h"

namespace gemm {

// Times that overlap, added as the sides of a box are, with an exponent of 2.5 instead of 2: the longest
// counts most.
inline double overlapping(double a, double b, double c = 0) {
  const auto power = [](double x) { return x * x * std::sqrt(x); };
  return std::pow(power(a) + power(b) + power(c), 1 / 2.5);
}

// Time for A, B and C to come from memory and go there, once, in microseconds. `memory`: TB/s.
inline double memory_us(const PlannedProblem& p, double memory) {
  const double m = p.M, n = p.N, k = p.K, c = m * n * (p.reads_c ? 2 : 1);
  return p.products * p.element_bytes * 1e-6 * (m * k + k * n + c) / memory;
}

// Requests for 128 bytes of a row.
inline double requests(RowRequests r, const EngineCosts& c) {
  return r == RowRequests::one ? 1 : r == RowRequests::sectors ? c.sectors : 1.5 * c.sectors;
}

// Copies of the operands that TMA cannot address (device/repack.cuh): a kernel before the kernel.
inline double copies_us(const PlannedProblem& p, const EngineCosts& c) {
  const double elements = p.copied_elements();
  return elements == 0 ? 0 : c.copy_launch + 2e-6 * p.element_bytes * elements / c.copies;
}

// What a million results of an SM take that nothing hides: storing them, and the epilogue besides.
inline double store_us(const PlannedProblem& p, const EngineCosts& c) {
  return c.store * (1 + (p.reads_c ? 2 : 0) + (p.vectors ? 0.5 : 0) + (p.function ? 2 : 0));
}

}  // namespace gemm
