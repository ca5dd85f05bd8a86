// What a registration makes of a rung's entries: rungs that take every call. In a file of its own,
// as all rungs include rung.h and none needs this code compiled again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gemm_types.h"
#include "plan/arch.h"
#include "plan/plan.h"
#include "registry.h"

namespace gemm {

struct Entry {
  DType dtype;
  std::function<void(const GemmCall&)> launch = {};
  std::vector<RungVariant> variants = {};
  decltype(Rung::plan) plan = {};
  decltype(Rung::explain) explain = {};
  decltype(Rung::run) run = {};
  bool estimates = false, dispatches = false;
  // Whether `run` has the call's whole epilogue in its kernel; empty: never.
  std::function<bool(const GemmCall&, const Plan&)> fuses = {};
};

struct About {
  const char* prev = "";  // the rung that this one changes
  const char* idea = "";  // one line, for --list and the table
  Needs needs = {};
  // How wrong a product a * b may be, relative to it, before it is added: of a rung that keeps each
  // number as two of a narrower type. The harness allows for that much more, and no rung should
  // need it without saying so in its idea.
  double product_error = 0;
  // Whether a product may be rounded to C's type before beta * C is added: cuBLAS does so with some
  // halves (seen at 64 x 136 x 48; its math modes do not prevent it). No kernel of ours may.
  bool rounds_products = false;
  // Whether it takes numbers of usual size alone, as one that splits each into narrower parts does:
  // infinities, NaN and the ends of the range of exponents are then not verified, and --list says so.
  bool narrow_range = false;
};

// What registration asks of a backend. rung.h has each build's.
struct BackendCalls {
  Backend backend;
  // Calls f with the stream's GPU as the current one.
  void (*on_gpu_of)(void* stream, const std::function<void(const Arch&)>& f);
  // Calls f with so many bytes of the GPU's memory, in stream order.
  void (*with_workspace)(size_t bytes, void* stream, const std::function<void(void*)>& f);
};

// Of a rung whose kernels compute one product: a batch by a launch each, planned once.
Entry product_by_product(Entry e);
// Of a rung that takes no groups: it has no plan for them, so that no dispatcher chooses it.
Entry without_groups(Entry e);
// Of a rung that does not keep rows' bits, likewise.
Entry without_invariance(Entry e);
// An entry that takes every epilogue: what its kernel lacks is left to a pass, which its plan counts in.
// Scales of f16 need sums in float between both: by the rung `id`'s entry for float results, by that of
// a rung before it, or by any. Where none takes the layout the pass scales what was rounded.
Entry with_epilogue_pass(Entry e, const BackendCalls& backend, const std::string& id = {});

// Adds a rung, under its file's name.
void register_entries(const About& about, std::vector<Entry> entries, const BackendCalls& backend,
                      const char* file);

}  // namespace gemm
