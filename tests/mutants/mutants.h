// Kernels with one planted bug each (mutants.cu), and the same kernels without it.
#pragma once

#include <vector>

#include "registry.h"

namespace gemm {
std::vector<Rung> correct_twins();
std::vector<Rung> mutants();
// Wrong in a problem whose epilogue has all operands and ReLU.
std::vector<Rung> epilogue_mutants();
// Wrong in one with all operands: one of them is read as half. Named by that.
std::vector<Rung> narrow_operand_mutants();
// Wrong as soon as a call has several products; right with one.
Rung correct_batch();
std::vector<Rung> batch_mutants();
// Right and wrong in a gated problem with a bias and ReLU.
Rung correct_gates();
std::vector<Rung> gate_mutants();
// Right and wrong in FP8 with block scales.
Rung correct_block_scales();
std::vector<Rung> block_scale_mutants();
}  // namespace gemm
