// The sink for memory that several devices reach: whether anything orders two accesses of different
// parties, and whether what is read has been written. Happens-before by vector clocks, as in
// races.h, but between parties that run side by side: a block of a launch (its threads are one
// party here), a thread's TMA stores until they are complete, and a stream with its copies. What
// orders them: stream order, events, and flags that are raised by a release and waited for.
//
// Limit: what one thread of a block has learnt from a flag all threads of the block know.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/findings.h"
#include "sim/inspect.h"

namespace gemm::sim {

class PeerMemory {
 public:
  // By actor: how far its past is known.
  using Clock = std::vector<uint32_t>;

  // Who acts, and what it knows. One for each block that runs and for each stream.
  struct Party {
    uint32_t actor = 0;
    int name = 0;  // in names_; of a stream, of its operation
    Clock knows;   // by ordinary loads and stores
    Clock by_tma;  // what of that TMA may rely on: up to the last proxy fence
    int stream = 0;
    int64_t block = -1;
    Findings* findings = nullptr;
    std::function<std::string()> who;  // the running thread, for findings
    // TMA stores by thread: when each group that is not complete was issued.
    struct Stores {
      uint32_t actor;
      std::deque<uint32_t> groups;
    };
    std::map<int, Stores> stores;
    // The accesses of now, by instruction.
    struct Known {
      uintptr_t pc = 0;
      uint32_t actor = 0, time = 0, access = 0;
      AccessKind kind = AccessKind::read;
    };
    Known known[64];
  };
  // A launch: what its blocks know when they begin, and what is known when they have ended.
  struct Grid {
    int stream, device;
    Clock begin, end;
  };

  explicit PeerMemory(Findings& findings) : findings_(findings) {}

  void add(const void* first, size_t bytes, std::string name);
  void remove(const void* first);
  bool holds(const void* p) const { return find(p) != nullptr; }
  // The host has written this.
  void set_written(const void* p, size_t bytes);
  // Words that are not as fresh memory is count as written by the host.
  void look_for_written();

  // All that has been before comes before all that follows.
  void begin_run(int streams);

  // A stream begins an operation; what it does then.
  void begin_operation(int stream, std::string name);
  void access(int stream, const void* p, size_t bytes, AccessKind kind, uintptr_t pc);
  // What nobody has written is so in the copy, too: gaps between rows are copied with them.
  void copy(int stream, const void* to, const void* from, size_t bytes, uintptr_t pc);
  void write_value(int stream, const uint32_t* flag, uint32_t value);
  void wait_value(int stream, const uint32_t* flag, uint32_t at_least, uintptr_t pc) {
    acquire(streams_[stream], flag, at_least, pc);
  }
  Clock record(int stream);
  void wait(int stream, const Clock& event);
  Grid begin_grid(int stream, int device);
  void end_grid(const Grid& grid);

  // The party of a block of a grid, good until its end.
  std::unique_ptr<Party> begin_block(const Grid& grid, int64_t block, Findings& findings,
                                     std::function<std::string()> who);
  void end_block(Grid& grid, Party& party);
  // An access of its running thread.
  void access(Party& party, int thread, uintptr_t address, size_t bytes, AccessKind kind,
              uintptr_t pc);
  // By TMA: a load, and a store which is complete when tma_wait says so.
  void tma_access(Party& party, int thread, uintptr_t address, size_t bytes, AccessKind kind,
                  uintptr_t pc);
  void tma_commit(Party& party, int thread);
  void tma_wait(Party& party, int thread, int pending);  // for completion
  void proxy_fence(Party& party) { party.by_tma = party.knows; }
  // Before the flag is raised, by adding or by a store; and after a wait for it.
  void release(Party& party, const uint32_t* flag, uint32_t before, uint32_t after, bool adds,
               uintptr_t pc);
  void acquire(Party& party, const uint32_t* flag, uint32_t at_least, uintptr_t pc);
  // Each comes after what all have done: blocks of a cluster.
  void meet(const std::vector<Party*>& parties);

 private:
  // Accesses by one party at one time at one instruction.
  struct Access {
    uint32_t actor, time;
    uint32_t issuer, issued;  // of a TMA store: the block's own actor and time
    int name, thread;         // thread -1: not of a block
    uintptr_t pc;
    AccessKind kind;
  };
  // One entry a byte.
  struct Shadow {
    uint32_t writer = NOBODY;
    uint32_t readers = 0;  // a set of accesses; 0: none
  };
  static constexpr uint32_t NOBODY = 0, HOST = 1;  // writers; from base_ on: accesses
  struct Region {
    const char* first;
    size_t bytes;
    std::string name;
    std::unique_ptr<Shadow[], decltype(&std::free)> shadow;
  };
  struct Raised {
    uint32_t value;
    Clock knows;  // what came before: of this store, and of those that it adds to
  };

  const Region* find(const void* p) const;
  Region* find(const void* p) {
    return const_cast<Region*>(static_cast<const PeerMemory*>(this)->find(p));
  }
  uint32_t actor_of(uint64_t key);
  static bool covers(const Clock& clock, uint32_t actor, uint32_t time) {
    return actor < clock.size() && clock[actor] >= time;
  }
  static void join(Clock& clock, const Clock& more);
  static void set(Clock& clock, uint32_t actor, uint32_t time);
  bool known(const Party& party, const Clock& clock, const Access& a) const {
    return a.actor == party.actor || covers(clock, a.actor, a.time);
  }
  Clock publish(Party& party);
  void learn(Party& party, const Clock& more);
  const Access& at(uint32_t access) const { return accesses_[access - base_]; }
  uint32_t access_of(Party& party, uint32_t actor, int thread, AccessKind kind, uintptr_t pc);
  uint32_t with_reader(const Party& party, uint32_t readers, uint32_t access);
  void visit(Party& party, const Clock& clock, uint32_t actor, int thread, uintptr_t address,
             size_t bytes, AccessKind kind, uintptr_t pc, bool fresh_too = false);
  void report(Party& party, const Clock& clock, const Region& region, size_t at, AccessKind kind,
              uintptr_t pc, const Access& other);
  void check_flag(Party& party, const uint32_t* flag, uintptr_t pc);
  std::string name_of(const Access& a) const;

  Findings& findings_;
  std::map<const char*, Region> regions_;
  std::vector<std::string> names_;
  std::unordered_map<uint64_t, uint32_t> actors_;  // by who they are
  std::vector<uint32_t> time_;                     // by actor: now
  std::vector<Party> streams_;
  std::unordered_map<const void*, std::vector<Raised>> flags_;

  uint32_t base_ = HOST + 1;  // the first access of this run; all before are in order
  std::vector<Access> accesses_;
  uint32_t first_set_ = 1;
  std::vector<std::vector<uint32_t>> sets_;
  std::map<std::vector<uint32_t>, uint32_t> set_numbers_;
  std::unordered_map<uint64_t, uint32_t> with_reader_;  // set and access -> set
};

}  // namespace gemm::sim
