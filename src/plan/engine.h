// The plan of the engine's kernels: which configuration computes a problem, and how C is cut.
// Host only.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config.h"
#include "plan/arch.h"
#include "plan/row_panels.h"

namespace gemm::engine {

// What the plan looks at. Rows of an operand are asked from L2 in one request for 128 bytes, or,
// where they lie across lines, in more: `sectors` where they are in whole 32 bytes, `half` if not.
enum class RowRequests { one, sectors, half };
struct Problem {
  int M, N, K;
  int element_bytes;
  bool a_k_major, b_k_major;        // A as stored, B transposed
  RowRequests a, b;                 // of copies: one
  double copied_elements;           // of operands that TMA cannot address
  bool aligned_c;                   // C's rows are in whole 16 bytes
  bool reads_c, vectors, function;  // what an epilogue has: C, biases and scales, an activation
  bool whole_epilogue;  // one that only ping-pong kernels have: a pass follows the others
};

// A legal way to compute it, and how long that takes by the estimate.
struct Choice {
  int configuration;  // of CONFIGURATIONS
  bool swapped;       // x is n and y is m: C^T is computed
  double us;
  union {
    Rectangle cut;     // of a cooperative configuration
    RowPanels panels;  // of a ping-pong one
  };

  const Configuration& config() const { return CONFIGURATIONS[configuration]; }
};

// Clusters of so many CTAs that run at a time: within a GPC some SMs are left over.
int clusters_at_a_time(const Arch& arch, int size);

// Whether the engine computes C, or C^T, of this problem in that configuration.
bool supports(const Configuration& config, const Problem& problem, bool swapped);

// The choice with the least estimate, of all configurations or of one; configuration -1: none.
Choice choose(const Problem& problem, const Arch& arch, int configuration);

// What whole tiles of bm x bn take, by two consumers' turns, in clusters of `cluster` CTAs that share
// B, in microseconds.
double whole_tiles_us(const Problem& p, const Arch& arch, int bm, int bn, int cluster);

// All that choose() compares, for scripts that fit the estimate; at most `room`. Returns how many.
int candidates(const Problem& problem, const Arch& arch, Choice* choices, int room);

std::string explain(const Choice& choice, int sms);

}  // namespace gemm::engine
