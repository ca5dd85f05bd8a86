// What the grader and the student's program say to each other, beside own/message.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/host_matrix.h"
#include "harness/inputs.h"
#include "harness/problem.h"
#include "own/message.h"

namespace gemm {
NLOHMANN_JSON_SERIALIZE_ENUM(Op, {{Op::N, "n"}, {Op::T, "t"}})
}  // namespace gemm

namespace gemm::grading {

// What an epilogue is given: a leaky ReLU's slope, and a bias.
constexpr float SLOPE = 0.25f;
inline float bias_at(DType dtype, int n, Inputs inputs) {
  constexpr uint64_t BIAS_SEED = 77;
  const float x = random_value(BIAS_SEED, n);
  return static_cast<float>(round_to(dtype, inputs == Inputs::uniform ? x : std::round(3 * x)));
}

inline nlohmann::json to_json(const Problem& p) {
  return {{"dtype", to_string(p.dtype)},
          {"M", p.M},
          {"N", p.N},
          {"K", p.K},
          {"op_a", p.op_a},
          {"op_b", p.op_b},
          {"alpha", p.alpha},
          {"beta", p.beta},
          {"ld_pad", p.ld_pad}};
}
inline Problem problem_of(const nlohmann::json& j) {
  return {.dtype = dtype_of(j.at("dtype")),
          .M = j.at("M"),
          .N = j.at("N"),
          .K = j.at("K"),
          .op_a = j.at("op_a"),
          .op_b = j.at("op_b"),
          .alpha = j.at("alpha"),
          .beta = j.at("beta"),
          .ld_pad = j.at("ld_pad")};
}

}  // namespace gemm::grading
