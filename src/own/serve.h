// The judged program's side of the channel: requests in, answers out.
#pragma once

#include <sys/socket.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "own/message.h"

namespace gemm::own {

// Sends answer(request) for each request that arrives, until the judge is gone. What it throws is
// an answer, too; `unknown` where that is no std::exception.
template <class Answer>
void serve(Answer&& answer, const char* unknown) {
  using nlohmann::json;
  std::string arrived;
  char data[1 << 16];
  for (;;) {
    const ssize_t n = recv(CHANNEL, data, sizeof data, 0);
    if (n <= 0) return;
    arrived.append(data, n);
    while (const std::optional<json> request = take_message(arrived)) {
      json said;
      try {
        said = answer(*request);
      } catch (const std::exception& e) {
        said = {{"error", e.what()}};
      } catch (...) {
        said = {{"error", unknown}};
      }
      std::fflush(stdout);
      said["token"] = request->at("token");
      if (!send_message(CHANNEL, said)) return;
    }
  }
}

}  // namespace gemm::own
