// What the warps of one cluster do, step by step: a sink of Tracer, shared by the cluster's blocks.
//
// Steps are no time. Each warp has a clock, which an instruction moves on by one. What runs on by
// itself (copies, wgmma) takes a nominal number of steps, and a wait ends when the last of what it
// waits for has come. So the length of a chain of dependencies is what the timeline shows.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <source_location>
#include <tuple>
#include <vector>

#include "sim/inspect.h"
#include "sim/scheduler.h"

namespace gemm::sim {

class TimelineRecorder {
 public:
  // Where an event stands: the line that the call names, or a program counter where that names none
  // of a kernel's own file.
  struct Site {
    const char* file = nullptr;
    int line = 0;
    uintptr_t pc = 0;
    Site(std::source_location where, uintptr_t pc = 0)
        : file(where.file_name()), line(static_cast<int>(where.line())), pc(pc) {}
    explicit Site(uintptr_t pc) : pc(pc) {}
    auto operator<=>(const Site&) const = default;
  };
  struct Who {
    int cta, warp, lane;
  };

  // A request of a warp, when its first lane makes it.
  void request(Who who, EventKind kind, Site site);
  // An instruction of one lane. Those of a warp's other lanes join it. What runs on by itself is
  // `async`; returned is when it ends.
  int64_t issue(Who who, EventKind kind, Site site, int64_t bytes = 0, const char* memory = "",
                int64_t row = 0, int64_t col = 0);
  // One of a whole warp, such as mma.
  void collective(Who who, EventKind kind, Site site);
  // Ends a group of what was issued, of the kind that `kind` commits.
  void commit(Who who, EventKind kind, Site site);
  // Waits until at most `pending` groups are left.
  void wait_group(Who who, EventKind kind, Site site, int64_t pending);

  // A barrier in its phases; `object` is its address.
  void declare(const void* object, const TimelineBarrier& barrier);
  void arrive(Who who, EventKind kind, Site site, const void* object, int64_t bytes);
  // What comes at `step` counts for the phase, too: bytes of a copy.
  void arrive_at(const void* object, int64_t step);
  void complete(const void* object);
  int64_t phases(const void* object) const;  // that have completed
  // A wait for a phase; the result is for wait_ends, once it has returned.
  int wait(Who who, EventKind kind, Site site, const void* object, int64_t phase);
  void wait_ends(int event);
  int64_t begin_of(int event) const { return event < 0 ? 0 : events_[event].event.begin; }

  void mistake(Who who, Site site, const char* check, int other_warp);
  Timeline result(int64_t block, int warps) const;

 private:
  struct Raw {
    TimelineEvent event;
    Site site;
    uint32_t lanes = 0;
    int64_t calls = 0;
  };
  struct Warp {
    int64_t clock = 0;
    // Since the last synchronisation, and since the warp last did something of another class
    // (accesses or products): the event of each kind and line.
    std::map<std::tuple<EventKind, Site>, int> open;
    int open_class = 0;
    // All waits and the like so far, and how many each lane has made.
    struct Made {
      std::vector<int> events;
      std::array<int, WARP> count = {};
    };
    std::map<std::tuple<EventKind, Site, int, int64_t>, Made> made;
    struct Unit {  // copies and products that run on by themselves
      int64_t done = 0;
      std::deque<int64_t> groups;
    };
    std::map<EventKind, Unit> units;  // by what issues
  };

  Warp& warp(Who who) { return warps_[{who.cta, who.warp}]; }
  int add(Who who, EventKind kind, Site site);
  // The event of this kind in the warp's present epoch; a new one if there is none.
  int open(Who who, EventKind kind, Site site);
  // The n-th of its kind: new for the lane that comes first. `fresh` tells.
  int nth(Who who, EventKind kind, Site site, int object, int64_t phase, bool& fresh);
  int index_of(const void* object) const;

  std::vector<Raw> events_;
  std::vector<TimelineBarrier> barriers_;
  std::vector<int64_t> latest_;            // by barrier: the last arrival of the present phase
  std::vector<std::vector<int>> waiting_;  // by barrier: the waits that have not ended
  std::map<const void*, int> objects_;
  std::map<std::pair<int, int>, Warp> warps_;
  bool cut_ = false;
};

}  // namespace gemm::sim
