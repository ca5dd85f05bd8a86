// The matrices of a sharded product in its ranks' memory, filled, and the check of what came of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/device.h"
#include "sharded/sharded.h"
#include "sim/inspect.h"

namespace gemm {

// As verified by one GEMM: all_gather's product on every rank, the others' over the K of all.
Problem whole_problem(const ShardedProblem& p, int ld_pad);

// Each rank has guarded allocations of the whole problem's matrices; its shards are parts of them. What
// belongs to others is NaN in A.
class ShardedMatrices {
 public:
  // One device a rank; in the simulator they may be the same. Throws std::bad_alloc.
  ShardedMatrices(std::vector<Device*> devices, Fabric& fabric, const ShardedProblem& p,
                  int ld_pad);
  ~ShardedMatrices();
  ShardedMatrices(const ShardedMatrices&) = delete;

  void fill(Inputs kind, uint64_t seed);
  ShardedCall call() const;
  // All of them, for the microscope.
  std::vector<sim::Matrix> matrices() const;
  // Empty, or what is wrong in one line: of each rank's C, or of the shards together; and that no rank
  // has written outside of its shard.
  std::string check(Inputs kind, uint64_t seed);

 private:
  struct Matrices {
    void *a = nullptr, *b = nullptr, *c = nullptr;
  };
  void release();

  const std::vector<Device*> devices_;
  Fabric& fabric_;
  const ShardedProblem sharded_;
  const Problem whole_;
  std::vector<Matrices> of_;               // by rank
  void* collected_ = nullptr;              // C of the first device, to be checked
  std::vector<std::vector<char>> before_;  // of reduce_scatter: each rank's C as filled
  std::unique_ptr<Reference> reference_;   // of uniform inputs
  uint64_t reference_seed_ = 0;
};

// The passes that verify a product: bit for bit, but where partial results are rounded on their way.
std::vector<Inputs> passes_of(const ShardedProblem& p);

// Verifies one rung on the operands: empty, or what is wrong. Each pass runs it `turns` times,
// as flags and buffers are used again.
std::string verify_sharded(const ShardedRung& rung, int variant, const ShardedProblem& p,
                           Fabric& fabric, ShardedMatrices& matrices, int turns = 2);

}  // namespace gemm
