// Rungs that are a user's own files: what the command line names as path/to/mine.cu.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "registry.h"

namespace gemm::own {

// What a file's gemm takes, in one choice of types.
struct Interface {
  DType dtype;
  bool ld, scalars, stream;
};
// "gemm(M, N, K, alpha, A, B, beta, C)"
std::string signature(const Interface& i);

// Adds a rung under the file's name without its suffix: "mine" of "path/to/mine.cu".
Rung& add_rung(const std::string& file, const Interface& interface, Backend backend,
               std::function<void(const GemmCall&)> launch);

// The name of a file's rungs. Throws UsageError where it cannot be one's.
std::string name_of(const std::string& file);
std::string absolute_path(const std::string& file);
// Why a file without a gemm is refused: which forms there are.
std::string no_form(const std::string& file);
// Whether a part of --kernel is a file, not a rung.
bool is_file(const std::string& part);
// Whether the program has the file's rungs already.
bool is_added(const std::string& file, Backend backend);

}  // namespace gemm::own
