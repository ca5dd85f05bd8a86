// The plan of the engine's kernels: which configuration computes a problem, and how C is cut.
// Host only.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "engine/config.h"
#include "plan/arch.h"
#include "plan/problem.h"
#include "plan/row_panels.h"
#include "plan/tiles.h"

namespace gemm::engine {

// A legal way to compute a problem, and how long that takes by the estimate.
struct Choice {
  int configuration = -1;  // of CONFIGURATIONS; -1: none
  bool swapped = false;    // x is n and y is m: C^T is computed
  bool forwards = false;   // no tile of row panels starts at the end of K
  double us = 0;
  union {
    Rectangle cut;  // by the configuration's schedule
    RowPanels panels;
    Tiling tiling;
  };

  Choice() : cut{} {}
  const Configuration& config() const { return CONFIGURATIONS[configuration]; }
};

// Whether the engine computes C, or C^T, of this problem in that configuration. Where rows must keep
// their bits, C off 16 bytes is equal tiles' alone: sums added up may store another sign of 0.
bool supports(const Configuration& config, const PlannedProblem& problem, bool swapped);

// The choice with the least estimate, of all configurations or of one; configuration -1: none.
Choice choose(const PlannedProblem& problem, const Arch& arch, int configuration);

// All that choose() compares, for scripts that fit the estimate; at most `room`. Returns how many.
int candidates(const PlannedProblem& problem, const Arch& arch, Choice* choices, int room);

std::string explain(const Choice& choice, int sms);

}  // namespace gemm::engine
