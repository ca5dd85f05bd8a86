// What the checks of the traced build found, gathered by source line while blocks run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace gemm::sim {

enum class Check {
  race,              // two threads, one byte of shared memory, nothing that orders them
  uninitialised,     // a read of shared memory that the block has not written
  pending_copy,      // an access to shared memory that a cp.async is still writing
  pending_load,      // ... or a TMA load
  out_of_bounds,     // an access to global memory outside every matrix
  misaligned,        // an access at no multiple of its size
  forbidden,         // a write to an input, or a read of a C whose old values must not matter
  unwritten,         // an element of the result that nobody wrote
  written_twice,     // an element of the result that was written again
  unfinished_store,  // a TMA store that was announced before it was complete
  proxy_fence,       // a TMA load of what ordinary loads alone may rely on
  failed,            // the launch ended with an error: a divergent barrier, a deadlock, ...
};

// A mistake that any number of threads made, told by its first instance.
struct RawFinding {
  int64_t block = 0, order = 0;  // the lowest block with an instance; which was found first there
  std::string text;              // {line} and {other} stand for the places of the two pcs
  int64_t count = 0;

  void merge(const RawFinding& more) {
    const int64_t sum = count + more.count;
    if (std::tie(more.block, more.order) < std::tie(block, order)) *this = more;
    count = sum;
  }
};

class Findings {
 public:
  // `text` is called only when the mistake is new. An OS thread runs its blocks in order, so that
  // the first instance is that of its lowest block.
  template <class Text>
  void add(Check check, uintptr_t pc, uintptr_t other_pc, int64_t block, Text&& text) {
    const auto [it, fresh] = by_line_.try_emplace({check, pc, other_pc});
    if (fresh) it->second = {block, static_cast<int64_t>(by_line_.size()), text(), 0};
    ++it->second.count;
  }
  void merge(const Findings& more) {
    for (const auto& [key, finding] : more.by_line_) {
      const auto [it, fresh] = by_line_.try_emplace(key, finding);
      if (!fresh) it->second.merge(finding);
    }
  }
  // Those whose lowest block is at most this one.
  Findings up_to(int64_t block) const {
    Findings some;
    for (const auto& entry : by_line_)
      if (entry.second.block <= block) some.by_line_.insert(entry);
    return some;
  }
  const auto& all() const { return by_line_; }

 private:
  std::map<std::tuple<Check, uintptr_t, uintptr_t>, RawFinding> by_line_;
};

}  // namespace gemm::sim
