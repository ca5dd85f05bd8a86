// The registry: every rung that is linked into the program, for each backend. It fills itself from
// the rungs' own registration lines, so adding a file to kernels/ is all that adding a rung takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gemm_types.h"

namespace gemm {

// What a rung truly cannot do without. The runner skips a rung with the reason, and never launches
// it, when a need is not met.
struct Needs {
  int sm = 0;               // least compute capability: 80 = sm_80
  bool exact_arch = false;  // only on that very architecture (the "a" targets: sm_90a)
  bool transposed = false;  // true: takes every op(A), op(B); false: N, N only
};

struct Rung {
  std::string id;    // "v5", from the file name
  std::string name;  // "v05_float4", the file name
  std::string file;  // "kernels/v05_float4.cu"
  std::string prev;  // id of the rung that this one is compared with; empty for the first
  std::string idea;  // one line
  Needs needs;
  double product_error;  // relative error of its products, beyond their type's; 0 for most
  DType dtype;
  Backend backend;
  std::function<void(const GemmCall&)>
      launch;  // asynchronous on the GPU, synchronous in the simulator
};

// All rungs of a backend, one entry a (rung, dtype), in ladder order: by number, then by variant
// letter.
std::vector<const Rung*> rungs(Backend backend);
// The one entry, or null.
const Rung* find_rung(Backend backend, const std::string& id_or_name, DType dtype);

namespace detail {
void add(Rung rung);
}

}  // namespace gemm
