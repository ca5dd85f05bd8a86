// wgmma, warp by warp: each computes its 16 rows of the tile. The four warps of a warpgroup meet at
// the wait: the instructions are the warpgroup's, so that one thread may tell others that all four
// have read their operands. The accumulators are the kernel's
// arrays; from the first wgmma into them until the wait that covers the last one they hold a
// pattern, so that a kernel that reads them too early gets NaN and one that writes them is found
// out. With the eager schedule of copies the operands are read at the wait, with the lazy one at
// once: whichever of the two is late finds a wait or a release in the wrong place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/caller.h"
#include "sim/collectives.h"
#include "sim/hopper.h"
#include "sim/scheduler.h"

namespace gemm::sim {

// An operand as its descriptor says: `rows` (along M or N) x K.
struct WgmmaOperand {
  WgmmaOperand(const Caller& caller, const char* shared, size_t shared_bytes, uint64_t descriptor,
               bool mn_major, int first_row, int rows);

  bool mn_major;
  std::vector<const char*> chunks;  // K-major: [row][2]; MN-major: [k][row / 8]
  const char *begin, *end;          // around all
};

class Wgmma {
 public:
  void reset() {
    warps_.clear();
    gatherings_.clear();
  }
  void fence(int warp) { ++warps_[warp].fences; }
  void issue(const Caller& caller, const WgmmaCall& call, float* const (&d)[WARP], bool at_once,
             uintptr_t pc);
  void commit(int warp);
  // The running thread waits, with all others of its warpgroup.
  void wait(const Caller& caller, int pending);
  // What stands for the order that the wait brings, for the tracer.
  const void* object(int thread) { return &gatherings_[thread / (4 * WARP)]; }
  // Throws when a wgmma without a wait reads any of these bytes.
  void check_read(const Caller& caller, const void* p, size_t bytes) const;
  // Throws when this warp, whose first thread ends, has wgmma in flight.
  void check_end(int warp) const;
  // Throws when the warps of a warpgroup have not issued the same number; at the block's end.
  void check_warpgroups(int warps) const;

 private:
  // The registers of a warp that hold 16 x n values, while wgmma own them.
  struct Accumulators {
    float* d[WARP];
    int n = 0;
    int in_flight = 0;         // wgmma into them
    std::vector<float> value;  // [16][n]
    void save();
    void restore() const;
    void hide() const;
    bool hidden() const;
  };
  struct Job {
    Caller caller;
    WgmmaCall call;
    WgmmaOperand a, b;
    std::shared_ptr<Accumulators> into;
    bool done;
  };
  struct Warp {
    std::deque<Job> jobs;       // oldest first
    std::deque<size_t> groups;  // how many jobs each has
    size_t open = 0;            // in the group that is not committed
    int64_t issued = 0;
    int64_t fences = 0;
    std::unordered_map<const float*, std::shared_ptr<Accumulators>> owned;  // by lane 0's
    std::unordered_map<const float*, int64_t> retired;  // at which count of fences
  };

  // Threads of a warpgroup at a wait.
  struct Gathering {
    int warpgroup = 0, arrived = 0, pending = 0;
    std::source_location where;
  };

  // The operand B that was decoded last, and its bytes.
  struct DecodedB {
    WgmmaType type = {};
    bool mn_major = false;
    std::vector<char> bytes;
    std::vector<float> values;    // [k][column], MAX_N columns apart
    std::shared_ptr<void> codes;  // of FP8, in place of values
    bool replace(const WgmmaOperand& b, WgmmaType of, std::span<const char> now);
  };

  void multiply(const Job& job);
  template <class T>
  void multiply_codes(const Job& job);
  const float* decoded(const WgmmaOperand& b, WgmmaType type);
  static std::string missing(const void* gathering);
  void retire(const Caller& caller, Warp& warp);

  std::map<int, Warp> warps_;
  std::map<int, Gathering> gatherings_;  // by warpgroup
  DecodedB decoded_;
};

}  // namespace gemm::sim
