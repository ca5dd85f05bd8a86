// Quantisation: floats to FP8 numbers and the scales that they are multiplied by.
#pragma once

#include <cstdint>

#include "dtypes.h"
#include "gemm_types.h"

namespace gemm {

// Which elements of a matrix have a scale in common, and how the scales lie:
//   tensor          all                        one number
//   row             a row                      one after the other
//   block_row       1 x 128                    (columns / 128, rows), as of BlockScales::a
//   block           128 x 128                  (rows / 128, columns / 128), as of BlockScales::b
enum class ScaleOf { tensor, row, block_row, block };

// x = q * scale, but for rounding: scale = (largest |x|) / (the type's largest number), or 1 where all
// are 0. Larger numbers, infinities among them, become the type's largest; they and NaN do not count
// for the scale. NaN stays NaN.
struct Quantisation {
  int64_t rows = 0, cols = 0;
  const void* x = nullptr;
  int64_t ldx = 0;
  Element from = Element::f32;  // of x: f32, f16 or bf16
  void* q = nullptr;
  int64_t ldq = 0;
  Element to = Element::f8e4m3;  // of q: FP8
  float* scales = nullptr;
  int64_t ld_scales = 0;  // of blocks
  ScaleOf scale_of = ScaleOf::tensor;
  void* stream = nullptr;
};

// Launches the kernels: asynchronous on the GPU. Throws as gemm::launch.
void quantise(Backend backend, const Quantisation& call);

namespace detail {
void set_quantise(Backend backend, void (*quantise)(const Quantisation&));
}  // namespace detail

}  // namespace gemm
