// What the wrong elements of a result have in common: where to look first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/inputs.h"
#include "harness/problem.h"

namespace gemm {

// Wrong elements of C, a guarded matrix in host memory, and clauses about them: "all of them are in
// rows 3 to 7 and columns 0 to 63".
struct Pattern {
  int64_t wrong = 0, row = -1, col = -1;  // how many, and the first
  std::vector<std::string> clauses;
  std::string reason;  // a likely one; empty: none is
};
// The reason where all elements are NaN: which of the two it is, another beta tells.
inline constexpr char NOT_WRITTEN[] =
    "C is not written, or read although beta is 0, and 0 * NaN is NaN";
Pattern pattern(const Problem& p, const void* c, Inputs inputs, const HostReference& reference);

// The clauses as sentences, each behind a space.
std::string sentences(const Pattern& pattern);

}  // namespace gemm
