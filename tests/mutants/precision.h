// Kernels of the wrong precision, and their right twins: what verification must tell apart.
#pragma once

#include <vector>

#include "harness/problem.h"
#include "registry.h"

namespace gemm {

struct PrecisionMutant {
  Rung rung;
  const char* claims;  // "f32"; "f32, split" where it declares a product_error as v14 does
  const char* does;    // what it does instead, in a few words
  int from_K = 1;      // the least K where it is worse than what it declares
  EpilogueOperands operands = {};  // of the problem
};

// A plain dot product for each element of C, wrong in one way each.
std::vector<PrecisionMutant> sim_precision_mutants();
std::vector<PrecisionMutant> gpu_precision_mutants();
// These dot products without a fault, one a type.
std::vector<Rung> sim_precision_twins();
std::vector<Rung> gpu_precision_twins();

}  // namespace gemm
