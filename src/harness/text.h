// Text of others (arguments, files, a library's messages) on its way to a terminal or into JSON.
#pragma once

#include <string>
#include <string_view>

namespace gemm {

// Printable ASCII on one line: other bytes as \n, \t or \xNN, and what is longer than `most`
// characters cut, with "..." and its length in bytes. An ESC sequence cannot reach the terminal, a
// NUL cannot end the line, and a file of 3 MB is not repeated in a message.
std::string printable(std::string_view text, size_t most = 100);

}  // namespace gemm
