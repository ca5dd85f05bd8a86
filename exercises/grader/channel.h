// What the grader and the student's program say to each other: JSON in CBOR, behind its length.
#pragma once

#include <sys/socket.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/host_matrix.h"
#include "harness/inputs.h"
#include "harness/problem.h"

namespace gemm {
NLOHMANN_JSON_SERIALIZE_ENUM(Op, {{Op::N, "n"}, {Op::T, "t"}})
}  // namespace gemm

namespace gemm::grading {

constexpr int CHANNEL = 3;                      // its number in the student's program
constexpr uint32_t LONGEST_MESSAGE = 64 << 20;  // bytes

// What an epilogue is given: a leaky ReLU's slope, and a bias.
constexpr float SLOPE = 0.25f;
inline float bias_at(DType dtype, int n, Inputs inputs) {
  constexpr uint64_t BIAS_SEED = 77;
  const float x = random_value(BIAS_SEED, n);
  return static_cast<float>(round_to(dtype, inputs == Inputs::uniform ? x : std::round(3 * x)));
}

inline bool send_message(int channel, const nlohmann::json& message) {
  std::string bytes(sizeof(uint32_t), 0);
  nlohmann::json::to_cbor(message, bytes);
  const uint32_t length = bytes.size() - sizeof length;
  std::memcpy(bytes.data(), &length, sizeof length);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(channel, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return true;
}

// Takes the first message from what has arrived. Throws what nlohmann throws, or std::length_error.
inline std::optional<nlohmann::json> take_message(std::string& arrived) {
  uint32_t length;
  if (arrived.size() < sizeof length) return {};
  std::memcpy(&length, arrived.data(), sizeof length);
  if (length > LONGEST_MESSAGE) throw std::length_error("a message is too long");
  if (arrived.size() < sizeof length + length) return {};
  nlohmann::json message = nlohmann::json::from_cbor(arrived.substr(sizeof length, length));
  arrived.erase(0, sizeof length + length);
  return message;
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
