// How threads meet that stand for processes, each of which has one rank.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

// An all-gather among threads. A rank that does not come within a second fails it for all.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}

  bool all_gather(int rank, const void* mine, void* all, size_t bytes) {
    std::unique_lock lock(mutex_);
    if (parts_.empty()) parts_.resize(ranks_);
    parts_[rank].assign(static_cast<const char*>(mine), static_cast<const char*>(mine) + bytes);
    const int turn = turn_;
    if (++came_ == ranks_) {
      came_ = 0;
      ++turn_;
      told_ = std::move(parts_);
      parts_.clear();
      changed_.notify_all();
    }
    if (!changed_.wait_for(lock, std::chrono::seconds(3), [&] { return turn_ != turn; }))
      return false;
    for (int i = 0; i < ranks_; ++i)
      std::memcpy(static_cast<char*>(all) + i * bytes, told_[i].data(), bytes);
    return true;
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int came_ = 0, turn_ = 0;
  std::vector<std::vector<char>> parts_, told_;
};
