#include "sim/races.h"

#include <algorithm>
#include <bit>

#include "sim/diagnosis.h"

namespace gemm::sim {

void Races::begin_block(int threads, size_t bytes) {
  if (bytes_ < bytes) {
    bytes_ = bytes;
    for (auto* stamps : {&written_, &read_[0], &read_[1]}) stamps->allocate(bytes);
    for (auto* sites : {&write_site_, &read_site_[0], &read_site_[1]}) sites->allocate(bytes);
  } else if (touched_begin_ < touched_end_) {
    for (auto* stamps : {&written_, &read_[0], &read_[1]})
      std::fill_n(&(*stamps)[touched_begin_], touched_end_ - touched_begin_, 0);
  }
  touched_begin_ = static_cast<uint32_t>(bytes);
  touched_end_ = 0;
  threads_ = threads;
  now_.assign(threads, 1);
  barrier_ = 1 << THREAD_BITS;
  fine_ = ever_fine_ = false;
  objects_.clear();
  more_readers_.clear();
  pending_.clear();
  store_reads_.clear();
}

// The two fast paths: loops without branches, which the compiler turns into a few vector
// instructions.

// Written before the last barrier, and read by two others since.
template <int BYTES>
bool Races::reads_nothing_new(uint32_t at) const {
  bool news = false;
  for (int i = 0; i < BYTES; ++i)
    news |= (written_[at + i] - 1 >= barrier_ - 1) | (read_[1][at + i] < barrier_);
  return !news;
}

template <int BYTES>
bool Races::untouched_since_barrier(uint32_t at) const {
  bool touched = false;
  for (int i = 0; i < BYTES; ++i)
    touched |= (written_[at + i] >= barrier_) | (read_[0][at + i] >= barrier_);
  return !touched;
}

Races::Report Races::read(int thread, uint32_t at, int bytes, Site site) {
  if (!ever_fine_) {
    switch (bytes) {
      case 2:
        if (reads_nothing_new<2>(at)) return {};
        break;
      case 4:
        if (reads_nothing_new<4>(at)) return {};
        break;
      case 8:
        if (reads_nothing_new<8>(at)) return {};
        break;
      case 16:
        if (reads_nothing_new<16>(at)) return {};
        break;
    }
  }
  Report report;
  for (uint32_t byte = at; byte < at + bytes; ++byte) {
    const Stamp written = written_[byte];
    if (report.kind == Report::none) {
      if (written == 0) {
        report = {Report::uninitialised, site, 0, thread, 0, false, false, byte};
      } else if (written == PENDING) {
        const Pending copy = pending(byte);
        report = {Report::pending, site, copy.site, thread, copy.thread, false, true, byte};
      } else if (!ordered(written, thread)) {
        report = {Report::race, site, write_site_[byte], thread, thread_of(written), false,
                  true,         byte};
      }
    }
    add_reader(thread, byte, site);
  }
  touched_begin_ = std::min(touched_begin_, at);
  touched_end_ = std::max(touched_end_, at + bytes);
  return report;
}

Races::Report Races::use(int thread, uint32_t at) const {
  const Stamp written = written_[at];
  if (written == 0 || written == PENDING || ordered(written, thread)) return {};
  return {Report::race, 0, write_site_[at], thread, thread_of(written), false, true, at};
}

// A reader that comes before another one need not be remembered: a write that races with it races
// with the other one too.
void Races::add_reader(int thread, uint32_t byte, Site site) {
  for (int i = 0; i < 2; ++i)
    if (ordered(read_[i][byte], thread)) {
      read_[i][byte] = stamp(thread);
      read_site_[i][byte] = site;
      return;
    }
  if (!ever_fine_) return;
  std::vector<Reader>& more = more_readers_[byte];
  std::erase_if(more, [&](const Reader& r) { return ordered(r.stamp, thread); });
  more.push_back({stamp(thread), site});
}

Races::Report Races::check_write(int thread, uint32_t at, int bytes, Site site) {
  for (const StoreRead& r : store_reads_)
    if (at < r.at + r.bytes && r.at < at + bytes)
      return {Report::being_read, site, r.site, thread, r.thread, true, false, std::max(at, r.at)};
  for (uint32_t byte = at; byte < at + bytes; ++byte) {
    const Stamp written = written_[byte];
    if (written == PENDING) {
      const Pending copy = pending(byte);
      return {Report::pending, site, copy.site, thread, copy.thread, true, true, byte};
    }
    if (!ordered(written, thread))
      return {Report::race, site, write_site_[byte], thread, thread_of(written), true, true, byte};
    for (int i = 0; i < 2; ++i)
      if (!ordered(read_[i][byte], thread))
        return {Report::race, site, read_site_[i][byte], thread, thread_of(read_[i][byte]), true,
                false,        byte};
    if (!ever_fine_) continue;
    if (const auto more = more_readers_.find(byte); more != more_readers_.end())
      for (const Reader& r : more->second)
        if (!ordered(r.stamp, thread))
          return {Report::race, site, r.site, thread, thread_of(r.stamp), true, false, byte};
  }
  return {};
}

void Races::set_written(uint32_t at, int bytes, Stamp stamp, Site site) {
  std::fill_n(&written_[at], bytes, stamp);
  std::fill_n(&write_site_[at], bytes, site);
  for (auto& reads : read_) std::fill_n(&reads[at], bytes, 0);
  if (ever_fine_)
    for (uint32_t byte = at; byte < at + bytes; ++byte) more_readers_.erase(byte);
  touched_begin_ = std::min(touched_begin_, at);
  touched_end_ = std::max(touched_end_, at + bytes);
}

Races::Report Races::write(int thread, uint32_t at, int bytes, Site site) {
  const bool untouched = store_reads_.empty() && ((bytes == 4 && untouched_since_barrier<4>(at)) ||
                                                  (bytes == 16 && untouched_since_barrier<16>(at)));
  Report report;
  if (!untouched) report = check_write(thread, at, bytes, site);
  set_written(at, bytes, stamp(thread), site);
  return report;
}

Races::Report Races::copy_issued(int thread, uint32_t at, int bytes, Site site) {
  const Report report = check_write(thread, at, bytes, site);
  set_written(at, bytes, PENDING, site);
  pending_[at] = {thread, site};
  return report;
}

void Races::copy_landed(int thread, uint32_t at, int bytes) {
  set_written(at, bytes, stamp(thread), pending_[at].site);
  pending_.erase(at);
}

// A finding is as good as a thousand: the first.
Races::Report Races::read_in_pieces(int thread, uint32_t at, size_t bytes, Site site) {
  constexpr int PIECE = 16;
  Report first;
  for (size_t i = 0; i < bytes; i += PIECE) {
    const Report report = read(thread, at + i, PIECE, site);
    if (first.kind == Report::none) first = report;
  }
  return first;
}

Races::Report Races::store_issued(int thread, uint32_t at, size_t bytes, Site site) {
  store_reads_.push_back({thread, at, bytes, site});
  return read_in_pieces(thread, at, bytes, site);
}

// What was written since the issue has been reported then; this is for what will be.
Races::Report Races::store_has_read(int thread, uint32_t at, size_t bytes, Site site) {
  const auto it = std::ranges::find_if(store_reads_, [&](const StoreRead& r) {
    return r.thread == thread && r.at == at && r.bytes == bytes && r.site == site;
  });
  if (it != store_reads_.end()) store_reads_.erase(it);
  return read_in_pieces(thread, at, bytes, site);
}

void Races::written_from_outside(uint32_t at, int bytes, Site site) {
  set_written(at, bytes, 1, site);  // before any barrier
}

// Copies are of 4, 8 or 16 bytes, and aligned to them.
Races::Pending Races::pending(uint32_t byte) const {
  for (const uint32_t bytes : {4, 8, 16})
    if (const auto copy = pending_.find(byte / bytes * bytes); copy != pending_.end())
      return copy->second;
  return {};
}

// ------------------------------------------------------------------------------------------------

void Races::barrier() {
  const uint32_t time = *std::max_element(now_.begin(), now_.end()) + 1;
  if (time >> (32 - THREAD_BITS) != 0) fail("the race check counts to {} barriers a block", time);
  std::fill(now_.begin(), now_.end(), time);
  barrier_ = time << THREAD_BITS;
  fine_ = false;
  more_readers_.clear();
}

void Races::begin_fine() {
  if (fine_) return;
  fine_ = ever_fine_ = true;
  known_.resize(std::max<size_t>(known_.size(), threads_));
  for (int t = 0; t < threads_; ++t) {
    known_[t].assign(threads_, (barrier_ >> THREAD_BITS) - 1);
    known_[t][t] = now_[t];
  }
}

namespace {

// `from` may be empty: a wait that succeeds on a fresh barrier acquires no release.
void join(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
  if (to.size() < from.size()) to.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

// What the thread does from now on is not covered by what it has released.
void Races::advance(int thread) { known_[thread][thread] = ++now_[thread]; }

void Races::sync_warp(int first_thread, uint32_t lanes) {
  begin_fine();
  Clock all = known_[first_thread + std::countr_zero(lanes)];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    join(all, known_[first_thread + std::countr_zero(rest)]);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int thread = first_thread + std::countr_zero(rest);
    known_[thread] = all;
    advance(thread);
  }
}

void Races::release(int thread, const void* object) {
  begin_fine();
  join(objects_[object].open, known_[thread]);
  advance(thread);
}

void Races::complete(const void* object) {
  const auto it = objects_.find(object);
  if (it == objects_.end()) return;
  join(it->second.completed, it->second.open);
  it->second.open.clear();
}

void Races::acquire(int thread, const void* object) {
  begin_fine();
  if (const auto it = objects_.find(object); it != objects_.end())
    join(known_[thread], it->second.completed);
}

}  // namespace gemm::sim
