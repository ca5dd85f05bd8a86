// CUDA C++ of a user's own, in the words that a host compiler takes.
#pragma once

#include <string>
#include <vector>

namespace gemm::own {

// How the simulator calls the user's function gemm: `gemm` is a namespace of ours.
inline constexpr char RENAMED[] = "gemm_ladder_own";

// A file as the simulator compiles it, and what it includes of its own folder.
struct Translated {
  std::string path;  // the user's file
  std::string text;  // of the same lines
};

// Translates a file of CUDA C++ for the simulator's headers, line by line: launches kernel<<<...>>>(...),
// `extern __shared__`, threadIdx and its like, inline PTX, and the name gemm. Files that it includes by
// a path in quotes, of their folder or of CPATH, are translated too; the include then names `folder`/<number>.cuh. The last is the file
// itself. Throws UsageError where the file cannot be read.
std::vector<Translated> translate(const std::string& path, const std::string& folder);

// The text and that of all files that it includes by a path in quotes, for the key of a cache.
std::string with_includes(const std::string& path);

}  // namespace gemm::own
