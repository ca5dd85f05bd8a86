// A rung under the microscope: its traced build, run in the simulator on one problem.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/operand_buffers.h"
#include "harness/problem.h"
#include "registry.h"
#include "sim/inspect.h"

namespace gemm {

// What one rung asked of memory on one problem, and what it did wrong.
struct Inspection {
  Rung rung;
  Problem problem;
  std::string variant;  // of a rung with variants: the one that ran, or which other rung did
  std::string skipped;  // why there is nothing to see; empty: there is
  int64_t blocks = 0, traced = 0;
  int threads_per_block = 0;
  int64_t barriers = 0;  // by one block; the largest
  // The traffic of the whole grid. Unless all blocks were traced, those traced stand for the others
  // of their kind, and the sums are scaled.
  std::vector<sim::LineTraffic> lines;
  std::vector<sim::Finding> findings;
  std::optional<sim::WarpId> watched;       // the warp whose requests these are
  std::vector<sim::FirstRequest> requests;  // none: the launch has no such warp, or failed
  sim::Timeline timeline;                   // of look_closer
  std::vector<sim::Matrix> matrices;        // likewise: where offsets of requests point to

  // The sum over lines. `global`: A, B and C together; else shared memory.
  sim::Traffic total(bool global, sim::AccessKind kind) const;
};

// Rungs on one problem. Rows of all matrices are `pad` elements apart, 16 as in verification, so that
// an access past a row's end is seen; multiples of 16 keep every row's place in its 32-byte sector.
class Inspector {
 public:
  // Throws std::bad_alloc.
  explicit Inspector(const Problem& problem, int pad = 16);
  ~Inspector();
  Inspector(const Inspector&) = delete;

  // `rung` is of the traced build. Traces about `blocks` blocks, at least one of each kind; 0: all.
  // The watched warp's requests are told, too.
  Inspection inspect(const Rung& rung, int64_t blocks, std::optional<sim::WarpId> watched = {});

  // Fills in the first requests of each warp of a block, `each` of every instruction, and the
  // timeline of its cluster.
  void look_closer(Inspection& inspection, int64_t block, int each);

  // A further matrix that kernels may read, such as a bias. It must stay where it is.
  void add_input(const sim::Matrix& matrix) { inputs_.push_back(matrix); }
  // The part of C that one block of the grid writes.
  sim::Written written(const Rung& rung, int64_t block);
  // Which of its threads writes each element of C, row by row; -1: none.
  std::vector<int> owners(const Rung& rung, int64_t block);

 private:
  void count(Inspection& result, int64_t wanted);
  // The options' matrices are filled in.
  sim::Trace trace(const Rung& rung, sim::TraceOptions options);
  sim::Trace trace(const Rung& rung, std::vector<int64_t> blocks);
  GemmCall call() const;
  std::vector<sim::Matrix> matrices() const;

  std::unique_ptr<Device> device_;
  Problem problem_, padded_;
  OperandBuffers operands_;  // beside A, B and C
  char* memory_;  // all other matrices, so that their distances are the same in every run
  size_t offset_[3];
  std::vector<sim::Matrix> inputs_;
};

// Blocks that inspection traces unless it is told: all (0) of a small problem, few of a large one.
int64_t default_traced_blocks(const Problem& problem);

}  // namespace gemm
