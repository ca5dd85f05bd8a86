#include "sharded/rank_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "sharded/sharded.h"

namespace gemm {

// What the ranks share: a seat for each. Fresh shared memory is 0.
struct RankGroup::Page {
  struct Seat {
    std::atomic<int32_t> failed, left;
    char why[TEXT];
  } seats[MOST_RANKS];
};

namespace {

// When a process began, in ticks since the host's start; -1: there is none, or it has ended and
// waits to be looked after.
int64_t started(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return -1;
  // "4711 (a name) S ...": the state is field 3, the start field 22.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    if (!(fields >> field)) return -1;
    if (i == 3 && (field == "Z" || field == "X")) return -1;
  }
  return std::atoll(field.c_str());
}

struct PageName {
  std::array<char, 64> text;
};

// Maps the page; creates it first where `create` says so.
void* map_page(const char* name, size_t bytes, bool create) {
  const auto refuse = [&](const char* call) {
    throw std::runtime_error(
        std::string(call) + " of /dev/shm" + name + ": " + std::strerror(errno) +
        (create ? "" : ": all ranks must be of one host and see one /dev/shm"));
  };
  const int file = shm_open(name, create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
  if (file < 0) refuse("shm_open");
  if (create && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    shm_unlink(name);
    refuse("ftruncate");
  }
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) refuse("mmap");
  return page;
}

}  // namespace

RankGroup::RankGroup(int rank, int ranks, AllGather all_gather, Milliseconds limit)
    : rank_(rank), ranks_(ranks), all_gather_(std::move(all_gather)), limit_(limit) {
  static_assert(std::atomic<int32_t>::is_always_lock_free);
  PageName own{};
  try {
    const std::vector<PageName> names = gather([&] {
      if (rank_ != 0) return PageName{};
      std::random_device random;
      std::snprintf(own.text.data(), own.text.size(), "/gemm_ladder-%d-%08x%08x",
                    static_cast<int>(getpid()), random(), random());
      page_ = static_cast<Page*>(map_page(own.text.data(), sizeof(Page), true));
      return own;
    });
    processes_ = gather([&] {
      if (rank_ != 0)
        page_ = static_cast<Page*>(map_page(names[0].text.data(), sizeof(Page), false));
      return Process{getpid(), started(getpid())};
    });
  } catch (...) {
    if (own.text[0] != 0) shm_unlink(own.text.data());
    if (page_ != nullptr) munmap(page_, sizeof(Page));
    throw;
  }
  if (own.text[0] != 0) shm_unlink(own.text.data());  // all have it
  for (const Process& p : processes_)
    visible_.push_back(p.started >= 0 && started(p.id) == p.started);
}

RankGroup::~RankGroup() {
  leave();
  munmap(page_, sizeof(Page));
}

bool RankGroup::has_ended(int rank) const {
  return visible_[rank] && started(processes_[rank].id) != processes_[rank].started;
}

std::string RankGroup::failed() const {
  for (int i = 0; i < ranks_; ++i)
    if (i != rank_ && page_->seats[i].failed.load(std::memory_order_acquire) != 0)
      return name(i) + " failed: " + page_->seats[i].why;
  return {};
}

std::string RankGroup::lost() const {
  if (std::string who = failed(); !who.empty()) return who;
  for (int i = 0; i < ranks_; ++i)
    if (i != rank_ && page_->seats[i].left.load(std::memory_order_acquire) == 0 && has_ended(i))
      return name(i) + " has ended (process " + std::to_string(processes_[i].id) + ")";
  return {};
}

void RankGroup::fail(const std::string& why) noexcept {
  Page::Seat& seat = page_->seats[rank_];
  if (seat.failed.load(std::memory_order_relaxed) != 0) return;
  put(seat.why, why.c_str());
  seat.failed.store(1, std::memory_order_release);
}

void RankGroup::leave() noexcept { page_->seats[rank_].left.store(1, std::memory_order_release); }

bool RankGroup::all_have_left() const {
  for (int i = 0; i < ranks_; ++i)
    if (i != rank_ && page_->seats[i].left.load(std::memory_order_acquire) == 0 && !has_ended(i))
      return false;
  return true;
}

}  // namespace gemm
