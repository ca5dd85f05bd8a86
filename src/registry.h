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

// One of the ways in which a rung can compute: a template configuration compiled into it.
struct RungVariant {
  std::string name;  // "128x128x16 8x8 s4"
  std::function<void(const GemmCall&)> launch;
  std::function<bool(const GemmCall&)> fits;  // whether it takes this call
};

// Which of a rung's variants to launch, and why: "1024 tiles of 128 x 128: 7.8 waves on 132 SMs".
struct Choice {
  int variant = 0;  // its index
  std::string why;
};

struct Rung {
  std::string id;    // "v5", from the file name
  std::string name;  // "v05_float4", the file name
  std::string file;  // "kernels/v05_float4.cu"
  std::string prev;  // id of the rung that this one is compared with; empty for the first
  std::string idea;  // one line
  Needs needs;
  double product_error = 0;  // relative error of its products, beyond their type's; 0 for most.
                             // Not FFMA, then: an f32 rung is not held against that limit
  DType dtype;
  Backend backend;
  std::function<void(const GemmCall&)>
      launch;  // asynchronous on the GPU, synchronous in the simulator
  // Of a rung that has several: `launch` launches the one that `choose` names on this machine.
  std::vector<RungVariant> variants = {};
  std::function<Choice(const GemmCall&, int sm_count)> choose = {};
  // Whether `launch` takes this call; empty: every one.
  std::function<bool(const GemmCall&)> fits = {};
};

// The rung with that variant as its only way to compute: its `launch` and `fits`.
Rung with_variant(const Rung& rung, int variant);

// All rungs of a backend, one entry a (rung, dtype), in ladder order: by number, then by variant
// letter.
std::vector<const Rung*> rungs(Backend backend);
// The one entry, or null.
const Rung* find_rung(Backend backend, const std::string& id_or_name, DType dtype);

namespace detail {
void add(Rung rung);
}

}  // namespace gemm
