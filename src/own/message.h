// What a judge and a judged program say to each other: JSON in CBOR, behind its length.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace gemm::own {

constexpr int CHANNEL = 3, MEMORY = 4;          // descriptors in the judged program
constexpr uint32_t LONGEST_MESSAGE = 64 << 20;  // bytes

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

}  // namespace gemm::own
