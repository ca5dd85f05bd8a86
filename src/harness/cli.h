// The command line of gemm_bench: parsing and checking. Nothing here runs a kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/errors.h"
#include "harness/problem.h"
#include "registry.h"
#include "sim/warp_id.h"

namespace gemm {

using Ops = std::pair<Op, Op>;  // of A and of B

// A size to run, and what a shapes file narrows it down to.
struct Shape {
  int M = 0, N = 0, K = 0;
  std::string rungs = "all";       // which rungs run at this shape, in --kernel's syntax
  std::string place = {};          // "list.txt:3" of one from a file, for messages
  std::vector<Ops> ops = {};       // empty: those of --op
  std::vector<DType> dtypes = {};  // empty: those of --dtype
  int batch = 0;                   // 0: that of --batch
  Groups groups = {};              // of --groups: M is the rows of all
};

struct Options {
  std::string kernels = "all";  // as --kernel
  std::vector<DType> dtypes;    // empty: every type that a rung has
  std::vector<Shape> shapes;    // empty: the backend's default
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  EpilogueOperands operands = {};
  bool gated = false, invariant = false;
  int ld_pad = 0;
  int batch = 1, batch_pad = 0;
  bool shared_a = false, shared_b = false;
  std::vector<Ops> ops = {{Op::N, Op::N}};
  bool ops_given = false;  // by --op, which then chooses among the lines of a shapes file, too
  int64_t sample = 0;      // problems to run, drawn at random; 0: all
  uint64_t sample_seed = 1;
  bool quick = false;              // adaptive samples, short warm-up
  double time_limit_s = 0;         // of the whole run; 0: none
  std::optional<Backend> backend;  // empty: the GPU if there is one
  int device = 0;                  // which GPU; the simulator is device 0
  int gpus = 0;                    // that share a product (rungs m1, m2, ...); 0: one computes it
  bool list = false, verify_only = false, l2_cold = true;
  bool inspect = false, accuracy = false, alone = false;
  bool tune = false, tune_first = false, explain = false, no_tune_cache = false;
  std::string tune_cache;                // file; empty: the default
  bool jit = false, jit_beside = false;  // kernels compiled at run time; the others, too
  std::string variant;                   // name, "all", or empty: as the rung or its tuning says
  std::optional<int64_t> traced_blocks;  // of --inspect; 0: all; empty: by the problem's size
  std::optional<sim::WarpId> watched;    // of --inspect: whose requests to show
  std::string json;                      // file, or empty
  std::string html;                      // likewise: of --inspect, the page
  bool keep_going = false;
  std::string only;                          // a job's name: the process of that one (apart.h)
  std::vector<std::string> benchmark_flags;  // those that Google Benchmark is to have
  bool list_benchmarks = false;              // one of them: names only
  bool repeated = false;                     // another: several repetitions
  std::vector<std::string> arguments;        // as they came
  bool help = false;
  std::string help_text;
};

constexpr char JIT_WANTS_A_GPU[] =
    "--jit needs a GPU, for which it compiles: the simulator has the kernels of this build alone";

// Throws UsageError.
Options parse_command_line(int argc, const char* const* argv);

// The rungs named by `spec`: "v8", "v8,v10", "v1-v8", "v08_double_buffer", "sgemm" (f32 and tf32),
// "hgemm" (f16 and bf16), "all"; only those of `dtypes` unless that is empty. In ladder order, each once.
// Throws UsageError when the spec names no rung of this backend.
std::vector<const Rung*> select_rungs(const std::string& spec, const std::vector<DType>& dtypes,
                                      Backend backend);

}  // namespace gemm
