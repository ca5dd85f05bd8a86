// GEMMs whose operands are sharded over several devices, and the rungs that compute them: m1, m2.
//
//   all_gather      rank r has a shard of A's rows and its own B. C = A * B, all rows, on each rank
//   reduce_scatter  rank r has its own A and B. It gets a shard of the rows of the sum of all A * B
//   all_reduce      the same, but each rank gets all rows of the sum
//
// A layer of a model split over GPUs is two of them: the first product of an MLP gathers its input,
// the second one scatters its output. Where each rank has the whole input, the second one reduces.
//
// A is M x K, B is K x N (or N x K, transposed), C is M x N, all of f16 or bf16, row-major with
// leading dimensions in elements.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gemm_types.h"
#include "host_device.h"
#include "sharded/fabric.h"

namespace gemm {

constexpr int MOST_RANKS = 8;

enum class Collective { all_gather, reduce_scatter, all_reduce };
inline const char* name_of(Collective c) {
  constexpr const char* NAMES[] = {"all_gather", "reduce_scatter", "all_reduce"};
  return NAMES[static_cast<int>(c)];
}

// How M rows are shared out among ranks: equal shards, a multiple of 16 rows, but for the last one.
// So a warp's 16 rows of a tile never belong to two shards.
struct Shards {
  static constexpr int ROWS = 16;
  int M = 0, ranks = 1;

  GEMM_HOST_DEVICE constexpr int each() const {
    const int rows = M / ranks + (M % ranks != 0);
    return (rows + ROWS - 1) / ROWS * ROWS;
  }
  GEMM_HOST_DEVICE constexpr int first(int rank) const {
    const int64_t row = int64_t{each()} * rank;
    return row < M ? static_cast<int>(row) : M;
  }
  GEMM_HOST_DEVICE constexpr int end(int rank) const { return first(rank + 1); }
  GEMM_HOST_DEVICE constexpr int rows(int rank) const { return end(rank) - first(rank); }
};

struct ShardedProblem {
  Collective collective = Collective::all_gather;
  DType dtype = DType::bf16;
  int ranks = 2, M = 0, N = 0, K = 0;  // each rank computes M x N x K
  Op op_b = Op::N;
  bool operator==(const ShardedProblem&) const = default;
  Shards shards() const { return {M, ranks}; }
};

// One rank's matrices. Of all_gather A is its shard of rows; of reduce_scatter C is.
struct ShardedOperands {
  const void* A = nullptr;
  int64_t lda = 0;
  const void* B = nullptr;
  int64_t ldb = 0;
  void* C = nullptr;
  int64_t ldc = 0;
};
using ShardedCall = std::vector<ShardedOperands>;  // by rank

// A sharded product with the buffers that it exchanges data through. It may be called again and
// again, with other matrices of the same shape.
class ShardedGemm {
 public:
  virtual ~ShardedGemm() = default;
  // Queues the product on the streams of the ranks that are here(): of the others, the call's
  // operands are null. It begins when all ranks' compute streams have come to it. Work that is
  // later in a rank's compute stream finds the result, and may overwrite the operands.
  virtual void enqueue(const ShardedCall& call) = 0;
};

struct ShardedRung {
  std::string id;    // "m3", from the file name
  std::string name;  // "m03_peer_copies", the file name
  std::string file;  // "kernels/m03_peer_copies.cu"
  std::string prev;  // id of the rung that this one is compared with
  std::string idea;  // one line
  Needs needs;
  Collective collective;
  DType dtype;
  Backend backend;
  bool collectives = false;           // needs the fabric's (NCCL)
  bool apart = false;                 // each rank may have a process of its own
  int64_t most_elements = INT64_MAX;  // of C, up to which the library chooses it by itself
  std::vector<std::string> variants;  // empty: there is one way
  std::function<std::unique_ptr<ShardedGemm>(const ShardedProblem&, Fabric&, int variant)> make;
};

// All of a backend, in order of number, then collective, then type.
std::vector<const ShardedRung*> sharded_rungs(Backend backend);

namespace detail {
void add(ShardedRung rung);
}

}  // namespace gemm
