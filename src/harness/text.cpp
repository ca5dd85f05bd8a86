#include "harness/text.h"

#include <fmt/format.h>

namespace gemm {

std::string printable(std::string_view text, size_t most) {
  std::string out;
  for (const char c : text) {
    std::string next(1, c);
    if (c == '\n')
      next = "\\n";
    else if (c == '\t')
      next = "\\t";
    else if (c < ' ' || c > '~')
      next = fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    if (out.size() + next.size() > most) return fmt::format("{}... ({} bytes)", out, text.size());
    out += next;
  }
  return out;
}

}  // namespace gemm
