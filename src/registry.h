// The registry: every rung that is linked into the program, for each backend. It fills itself from
// the rungs' own registration lines, so adding a file to kernels/ is all that adding a rung takes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "entry.h"
#include "gemm_types.h"
#include "plan/plan.h"

namespace gemm {

// One of the ways in which a rung can compute: a template configuration compiled into it.
struct RungVariant {
  std::string name;  // "128x128x16 8x8 s4"
  std::function<void(const GemmCall&)> launch;
  std::function<bool(const GemmCall&)> fits;  // whether it takes this call
};

struct Rung {
  std::string id;    // "v5", from the file name
  std::string name;  // "v05_float4", the file name
  std::string file;  // "kernels/v05_float4.cu"
  std::string prev;  // id of the rung that this one is compared with; empty for the first
  std::string idea;  // one line
  Needs needs;
  double product_error = 0;      // relative error of its products, beyond their type's; 0 for most.
                                 // Not FFMA, then: an f32 rung is not held against that limit
  bool rounds_products = false;  // to C's type before beta * C, where that is: the baseline's habit
  bool narrow_range = false;  // no infinity or NaN, and no number near the ends of the type's range
  DType dtype;
  Backend backend;
  // Plans the call for the current GPU and launches it. Asynchronous on the GPU, synchronous in the
  // simulator. Several threads may call it at once, each with its own stream; the simulator runs one
  // launch after the other. Throws as gemm::launch.
  std::function<void(const GemmCall&)> launch;
  // Of a rung that has several: `plan` chooses one.
  std::vector<RungVariant> variants = {};
  // Empty: there is nothing to plan. No plan: the rung's kernel does not take this call, and the
  // rung before it computes it. Of the rung itself it looks at nothing but `candidates`.
  std::function<std::optional<Plan>(const Rung& self, const GemmCall&, const Arch&, int variant)>
      plan = {};
  // What the plan says in words; of rungs that plan.
  std::function<std::string(const GemmCall&, const Plan&)> explain = {};
  // Launches as planned. Throws as gemm::launch.
  std::function<void(const GemmCall&, const Plan&)> run = {};
  bool estimates = false;   // its plans have a makespan: a dispatcher may choose it
  bool dispatches = false;  // it plans over its candidates
  std::vector<const Rung*> candidates = {};  // of a dispatcher's variants: the rungs that estimate
  // Whether `launch` takes this call; empty: every one.
  std::function<bool(const GemmCall&)> fits = {};
  // Its jobs run in processes of their own: a user's file.
  bool apart = false;
  // What is known about a result on M x N x K that was said to be wrong, for the end of that line.
  // Kernels of a user's own have it, whose faults are theirs and not the machine's.
  std::function<std::string(int M, int N, int K, const std::string& wrong)> diagnose = {};
};

// The rung with that variant as its only way to compute: its `launch` and `fits`.
Rung with_variant(const Rung& rung, int variant);
// The rung that launches as planned, whatever the call: one that the plan holds for.
Rung with_plan(const Rung& rung, const Plan& plan);

// The name of the rung in a file: "v05_float4" of ".../kernels/v05_float4.cu".
std::string rung_name(const std::string& file);
// The permanent id in a rung's name: "v5" of "v05_float4".
std::string rung_id(const std::string& name);
// Its place on the ladder: number, then variant letter.
std::pair<int, std::string> ladder_position(const std::string& id);

// All rungs of a backend, one entry a (rung, dtype), in ladder order: by number, then by variant
// letter.
std::vector<const Rung*> rungs(Backend backend);
// The one entry, or null.
const Rung* find_rung(Backend backend, const std::string& id_or_name, DType dtype);

// The products of a call's batch before their epilogue: in D's memory, or elsewhere.
struct ProductsInMemory {
  const void* first;
  int64_t ld, stride;
  bool in_float = false;  // else of C's type
};
// The elementwise kernel that applies the call's epilogue to them and writes D. Launched by the host,
// asynchronous on the GPU.
void launch_epilogue_pass(Backend backend, DType dtype, const GemmCall& call,
                          const ProductsInMemory& products);
// How many of them the process has launched: a call that adds one was not fused.
uint64_t epilogue_passes();

namespace detail {
Rung& add(Rung rung);  // to stay where it is
using EpiloguePass = void (*)(DType, const GemmCall&, const ProductsInMemory&);
void set_epilogue_pass(Backend backend, EpiloguePass pass);
}  // namespace detail

}  // namespace gemm
