// The mbarriers of one block: arrivals, transaction bytes, phases. They stand in a table by
// address; in memory lies only a mark, which tells when something else has been written there.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/caller.h"

namespace gemm::sim {

class Mbarriers {
 public:
  struct Mbarrier {
    const Block* block;
    const uint64_t* address;
    std::source_location made;
    bool fenced = false;     // since: TMA and other blocks may use it
    int64_t phase = 0;       // phases completed
    int64_t count, pending;  // arrivals: of a phase, still missing
    int64_t bytes = 0;       // announced and still missing; negative: came before the announcement
    std::vector<int> waiters;  // threads that wait for the end of the phase
  };

  void reset() { all_.clear(); }
  void init(const Caller& caller, uint64_t* address, uint32_t count);
  void fence() {
    for (auto& [address, m] : all_) m.fenced = true;
  }
  // Throws when there is none.
  Mbarrier& at(const Caller& caller, const uint64_t* address);

 private:
  std::unordered_map<const uint64_t*, Mbarrier> all_;
};

// `bytes` bytes that TMA was asked for have come to `block`.
void complete_bytes(const Caller& caller, Block& block, const uint64_t* barrier, int64_t bytes);

}  // namespace gemm::sim
