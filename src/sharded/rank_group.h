// Ranks that are processes of one host: what they tell each other while they make something
// together, and whether all of them are still there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "device_errors.h"

namespace gemm {

// One rank among them. They meet in gather(), which all call equally often, in the same order.
// After that they share a page of host memory, on which each tells its end: who has failed, and who
// has let go of the others' memory. A process that has ended can tell nothing: it is missing in
// /proc.
class RankGroup {
 public:
  // The caller's all-gather: copies `bytes` bytes of every rank, by rank, to `all`. False: it
  // failed.
  using AllGather = std::function<bool(const void* mine, void* all, size_t bytes)>;
  using Milliseconds = std::chrono::milliseconds;

  // Meets the others. `limit`: how long a rank waits for another one's part. Throws RankFailure.
  RankGroup(int rank, int ranks, AllGather all_gather, Milliseconds limit);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Milliseconds limit() const { return limit_; }

  // What make() returns on every rank. Where it throws on one, that exception is thrown there and
  // RankFailure, with its text, on the others.
  template <class Make>
  auto gather(Make&& make) {
    using T = std::invoke_result_t<Make>;
    static_assert(std::is_trivially_copyable_v<T>);
    struct Told {
      int32_t failed;
      char why[TEXT];
      T value;
    };
    std::vector<Told> all(ranks_);
    Told mine;
    std::memset(static_cast<void*>(&mine), 0, sizeof mine);
    std::exception_ptr own;
    try {
      mine.value = make();
    } catch (const std::exception& e) {
      own = std::current_exception();
      mine.failed = 1;
      put(mine.why, dynamic_cast<const std::bad_alloc*>(&e) ? "out of memory" : e.what());
    }
    const bool met = all_gather_(&mine, all.data(), sizeof mine);
    if (own != nullptr) std::rethrow_exception(own);
    if (!met) throw RankFailure("the exchange with the other ranks failed");
    std::vector<T> values;
    for (int i = 0; i < ranks_; ++i) {
      if (all[i].failed != 0) throw RankFailure(name(i) + " failed: " + all[i].why);
      values.push_back(all[i].value);
    }
    return values;
  }
  void meet() {
    gather([] { return 0; });
  }

  // The others no longer meet after the last gather(): the caller's function is not called again.
  void no_more_gathering() { all_gather_ = nullptr; }

  // Another rank that has failed, in words; empty: none has. And the same of one that has ended,
  // too, which takes some tens of microseconds to find out.
  std::string failed() const;
  std::string lost() const;
  // Tells the others, once, that this rank's part will not come.
  void fail(const std::string& why) noexcept;
  // This rank no longer touches the others' memory; and whether nobody touches this one's.
  void leave() noexcept;
  bool all_have_left() const;

 private:
  static constexpr size_t TEXT = 240;
  struct Page;
  struct Process {
    int64_t id, started;
  };

  static std::string name(int rank) { return "rank " + std::to_string(rank); }
  static void put(char (&to)[TEXT], const char* text) { std::strncpy(to, text, TEXT - 1); }
  bool has_ended(int rank) const;

  const int rank_, ranks_;
  AllGather all_gather_;
  const Milliseconds limit_;
  std::vector<Process> processes_;  // by rank
  std::vector<bool> visible_;       // whether /proc has it: not across containers
  Page* page_ = nullptr;
};

}  // namespace gemm
