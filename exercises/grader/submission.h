// What the student's program holds: the kernels (and one host function) of the exercises that are
// linked into it, each under the file that it stands in. They add themselves; see exercise.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gemm_types.h"

namespace gemm::grading {

// What C is made of, after alpha * A * B + beta * C.
enum class Epilogue { none, bias, leaky_relu };

struct Submission {
  std::string file;  // ".../exercises/ex03_name/start.cu"
  DType dtype = DType::f32;
  Epilogue epilogue = Epilogue::none;
  // bias: N elements of the matrices' type, or null; slope: of leaky ReLU.
  std::function<void(const GemmCall&, const void* bias, float slope)> launch;
  // In place of a kernel: how many of n elements are wrong.
  std::function<int64_t(const float* got, const double* want, const double* bound, int64_t n)>
      count_wrong;
};

void add(Submission submission);
const std::vector<Submission>& submissions();

}  // namespace gemm::grading
