// What a rung's file tells the registry. It has neither strings nor containers: nvcc takes longer for
// these than for a kernel.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "gemm_types.h"
#include "plan/plan.h"

namespace gemm {

// What a rung truly cannot do without. The runner skips a rung with the reason, and never launches
// it, when a need is not met.
struct Needs {
  int sm = 0;                  // least compute capability: 80 = sm_80
  bool exact_arch = false;     // only on that very architecture (the "a" targets: sm_90a)
  bool transposed = false;     // true: takes every op(A), op(B); false: N, N only
  bool no_activation = false;  // of the epilogue, takes alpha and beta alone
  bool batches = false;        // true: takes a batch in one launch; false: a launch each product
  bool groups = false;         // true: takes products of different heights (Batch::ends)
  bool invariant = false;      // true: keeps rows' bits where that is asked (GemmCall::invariant)
  // What kernels of a user's own may lack (src/own); all of the ladder have it.
  bool dense = false;              // takes rows without gaps only: ld is the number of columns
  bool product_only = false;       // alpha = 1 and beta = 0 only
  int equal = 0;                   // 2: M = N only; 3: M = N = K only
  int multiple_of[3] = {1, 1, 1};  // of these M, N and K only
  int most_k = 0;                  // 0: any K
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

// A launch function, without its types.
struct Launcher {
  virtual ~Launcher();  // not inline, so that instrumented rungs have no copy of this class
  virtual void launch(const GemmCall&) const = 0;
};

// The variants of a rung that plans, without their types.
struct Variants {
  virtual ~Variants();
  virtual int count() const = 0;
  virtual const char* name(int variant) const = 0;
  virtual bool fits(int variant, const GemmCall&) const = 0;  // whether it takes this call
  virtual Plan plan(const GemmCall&, const Arch&, int variant) const = 0;
  virtual bool estimates() const = 0;  // whether its plans have a makespan
  virtual void explain(const GemmCall&, const Plan&, std::string& text) const = 0;
  // Whether `run` has the call's whole epilogue in its kernel.
  virtual bool fuses(const GemmCall&, const Plan&) const = 0;
  virtual void run(const GemmCall&, const Plan&) const = 0;
};

// How a rung computes in one type. It has a launch function, variants, or rungs that it chooses, or
// nothing where the type is left out. What is pointed to belongs to the rung that the entry becomes.
struct Entry {
  DType dtype;
  const Launcher* launcher = nullptr;
  const Variants* variants = nullptr;
  Plan (*dispatch)(const Rung& self, const GemmCall&, const Arch&, int candidate) = nullptr;
};

// What registration asks of a backend. rung.h has each build's.
struct BackendCalls {
  Backend backend;
  // Calls f(context, ...) with the stream's GPU as the current one.
  void (*on_gpu_of)(void* stream, void (*f)(const void* context, const Arch&), const void* context);
  // Calls f(context, ...) with so many bytes of the GPU's memory, in stream order.
  void (*with_workspace)(size_t bytes, void* stream, void (*f)(const void* context, void* memory),
                         const void* context);
};

// Adds a rung in one type, under its file's name.
void register_entry(const About& about, const Entry& entry, const BackendCalls& backend,
                    const char* file);

}  // namespace gemm
