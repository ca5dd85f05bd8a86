// The names of __shared__ variables: they are thread-local, and the program's symbol table tells
// where they lie.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gemm::sim {

struct SharedVariable {
  size_t begin, end;  // bytes from the start of the program's TLS block
  std::string name;   // "sA"
};

// Those of all kernels, in the order of their places; empty if the program has no symbol table.
const std::vector<SharedVariable>& shared_variables();

}  // namespace gemm::sim
