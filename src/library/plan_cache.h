// The plans that a thread has made last, to be found again without a lock and without an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "plan/plan.h"

namespace gemm::library {

// All that a plan depends on. Compared byte by byte: no gaps.
struct PlanKey {
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // likewise; 0 of a single product
  int32_t M = 0, N = 0, K = 0;                       // K = 0 also where alpha is 0
  int32_t device = 0;
  int32_t batch = 1;
  uint8_t dtype = 0, op_a = 0, op_b = 0;
  uint8_t align_a = 0, align_b = 0, align_c = 0;  // 0 to 7: a multiple of 2^this bytes
  uint8_t grouped = 0;                            // 1: Batch::ends
  uint8_t operands = 0, activation = 0;           // of the epilogue: which there are
  uint8_t gated = 0;                              // 1: FusedEpilogue::gated
  uint8_t invariant = 0;                          // 1: GemmCall::invariant
  uint8_t unused[1] = {};

  bool operator==(const PlanKey& other) const {
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
static_assert(sizeof(PlanKey) == 80, "no gaps");

// A plan made, and its kernels loaded on its device.
struct PreparedPlan {
  PlanKey key;
  Plan plan;
  size_t workspace = 0;  // bytes
};

// The last plans of one thread. Set-associative: a key may lie in one of WAYS places, and a new one
// takes the place that was filled longest ago.
class PlanCache {
 public:
  static constexpr int SETS = 32, WAYS = 4, CAPACITY = SETS * WAYS;

  // Null: not here.
  const PreparedPlan* find(const PlanKey& key) const {
    const Set& set = sets_[index(key)];
    for (int way = 0; way < set.filled; ++way)
      if (set.plans[way].key == key) return &set.plans[way];
    return nullptr;
  }

  const PreparedPlan& insert(const PreparedPlan& plan) {
    Set& set = sets_[index(plan.key)];
    const int way = set.filled < WAYS ? set.filled++ : set.oldest;
    set.oldest = (way + 1) % WAYS;
    return set.plans[way] = plan;
  }

  int size() const {
    int count = 0;
    for (const Set& set : sets_) count += set.filled;
    return count;
  }

 private:
  struct Set {
    int filled = 0, oldest = 0;
    PreparedPlan plans[WAYS];
  };

  static int index(const PlanKey& key) {
    uint64_t words[sizeof key / 8], hash = 0;
    std::memcpy(words, &key, sizeof key);
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<int>(hash % SETS);
  }

  Set sets_[SETS];
};

}  // namespace gemm::library
