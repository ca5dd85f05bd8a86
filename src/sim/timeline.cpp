#include "sim/timeline.h"

#include <algorithm>
#include <bit>

#include "sim/source_lines.h"

namespace gemm::sim {

namespace {

// Nominal lengths, in steps.
constexpr int64_t COPY = 16, WGMMA = 4;

bool is_async(EventKind kind) {
  return kind == EventKind::cp_async || kind == EventKind::tma_load ||
         kind == EventKind::tma_store || kind == EventKind::wgmma;
}

// Events of one class at one line are joined although others of their class come between.
int class_of(EventKind kind) { return kind == EventKind::mma || kind == EventKind::wgmma ? 1 : 0; }

// What a commit or a wait for groups is about.
EventKind issued_by(EventKind kind) {
  switch (kind) {
    case EventKind::cp_async_commit:
    case EventKind::cp_async_wait:
      return EventKind::cp_async;
    case EventKind::tma_commit:
    case EventKind::tma_wait:
      return EventKind::tma_store;
    default:
      return EventKind::wgmma;
  }
}

}  // namespace

int TimelineRecorder::add(Who who, EventKind kind, Site site) {
  if (events_.size() == Timeline::MOST_EVENTS) {
    cut_ = true;
    return -1;
  }
  Raw& raw = events_.emplace_back(Raw{{}, site});
  raw.event.kind = kind;
  raw.event.cta = who.cta;
  raw.event.warp = who.warp;
  raw.event.begin = raw.event.end = warp(who).clock;
  return static_cast<int>(events_.size()) - 1;
}

int TimelineRecorder::open(Who who, EventKind kind, Site site) {
  Warp& w = warp(who);
  if (w.open_class != class_of(kind)) w.open.clear();
  w.open_class = class_of(kind);
  const auto [it, fresh] = w.open.try_emplace({kind, site}, -1);
  if (fresh) it->second = add(who, kind, site);
  return it->second;
}

int TimelineRecorder::nth(Who who, EventKind kind, Site site, int object, int64_t phase,
                          bool& fresh) {
  Warp& w = warp(who);
  Warp::Made& made = w.made[{kind, site, object, phase}];
  const size_t n = made.count[who.lane]++;
  fresh = n == made.events.size();
  if (fresh) {
    w.open.clear();
    const int event = add(who, kind, site);
    made.events.push_back(event);
    if (event >= 0) {
      events_[event].event.object = object;
      events_[event].event.phase = phase;
    }
  }
  const int event = made.events[n];
  if (event >= 0) {
    events_[event].lanes |= 1u << who.lane;
    ++events_[event].calls;
  }
  return event;
}

void TimelineRecorder::request(Who who, EventKind kind, Site site) {
  const int event = open(who, kind, site);
  Warp& w = warp(who);
  ++w.clock;
  if (event < 0) return;
  events_[event].event.end = w.clock;
  ++events_[event].event.count;
}

int64_t TimelineRecorder::issue(Who who, EventKind kind, Site site, int64_t bytes,
                                const char* memory, int64_t row, int64_t col) {
  Warp& w = warp(who);
  // A warp's lanes issue a cp.async together, though here they come one after the other.
  bool fresh = true;
  const int event =
      kind == EventKind::cp_async ? nth(who, kind, site, -1, 0, fresh) : add(who, kind, site);
  if (fresh) {
    ++w.clock;
    Warp::Unit& unit = w.units[kind];
    unit.done = std::max(unit.done, w.clock + COPY);
  }
  if (event < 0) return w.clock + COPY;
  TimelineEvent& e = events_[event].event;
  if (fresh) {
    e.end = w.clock;
    e.done = w.clock + COPY;
    e.memory = memory;
    e.row = row, e.col = col;
  }
  e.bytes += bytes;
  return e.done;
}

void TimelineRecorder::collective(Who who, EventKind kind, Site site) {
  const int event = open(who, kind, site);
  Warp& w = warp(who);
  ++w.clock;
  int64_t done = 0;
  if (is_async(kind)) {
    Warp::Unit& unit = w.units[kind];
    done = unit.done = std::max(unit.done, w.clock) + WGMMA;
  }
  if (event < 0) return;
  ++events_[event].event.count;
  events_[event].event.end = w.clock;
  events_[event].event.done = done;
}

void TimelineRecorder::commit(Who who, EventKind kind, Site site) {
  bool fresh = false;
  const int event = nth(who, kind, site, -1, 0, fresh);
  if (!fresh) return;
  Warp& w = warp(who);
  Warp::Unit& unit = w.units[issued_by(kind)];
  unit.groups.push_back(unit.done);
  ++w.clock;
  if (event >= 0) events_[event].event.end = w.clock;
}

void TimelineRecorder::wait_group(Who who, EventKind kind, Site site, int64_t pending) {
  bool fresh = false;
  const int event = nth(who, kind, site, -1, pending, fresh);
  if (!fresh) return;
  Warp& w = warp(who);
  std::deque<int64_t>& groups = w.units[issued_by(kind)].groups;
  ++w.clock;
  for (; groups.size() > static_cast<size_t>(pending); groups.pop_front())
    w.clock = std::max(w.clock, groups.front());
  if (event >= 0) events_[event].event.end = w.clock;
}

// -------------------------------------------------------------------------------------- barriers

void TimelineRecorder::declare(const void* object, const TimelineBarrier& barrier) {
  const auto [it, fresh] = objects_.try_emplace(object, static_cast<int>(barriers_.size()));
  if (!fresh) return;
  barriers_.push_back(barrier);
  latest_.push_back(0);
  waiting_.emplace_back();
}

int TimelineRecorder::index_of(const void* object) const {
  const auto it = objects_.find(object);
  return it == objects_.end() ? -1 : it->second;
}

int64_t TimelineRecorder::phases(const void* object) const {
  const int b = index_of(object);
  return b < 0 ? 0 : static_cast<int64_t>(barriers_[b].completed.size());
}

void TimelineRecorder::arrive(Who who, EventKind kind, Site site, const void* object,
                              int64_t bytes) {
  const int b = index_of(object);
  if (b < 0) return;
  bool fresh = false;
  const int event = nth(who, kind, site, b, phases(object), fresh);
  Warp& w = warp(who);
  if (fresh) ++w.clock;
  barriers_[b].takes_bytes |= bytes != 0;
  const int64_t step = event >= 0 ? events_[event].event.begin + 1 : w.clock;
  latest_[b] = std::max(latest_[b], step);
  if (event < 0) return;
  events_[event].event.end = step;
  events_[event].event.bytes += bytes;
}

void TimelineRecorder::arrive_at(const void* object, int64_t step) {
  const int b = index_of(object);
  if (b >= 0) latest_[b] = std::max(latest_[b], step);
}

void TimelineRecorder::complete(const void* object) {
  const int b = index_of(object);
  if (b < 0) return;
  barriers_[b].completed.push_back(latest_[b]);
  for (const int event : waiting_[b]) wait_ends(event);
  waiting_[b].clear();
}

int TimelineRecorder::wait(Who who, EventKind kind, Site site, const void* object, int64_t phase) {
  const int b = index_of(object);
  if (b < 0) return -1;
  bool fresh = false;
  const int event = nth(who, kind, site, b, phase, fresh);
  if (fresh && event >= 0) {
    events_[event].event.end = -1;
    if (phase == phases(object)) waiting_[b].push_back(event);
  }
  return event;
}

void TimelineRecorder::wait_ends(int event) {
  if (event < 0 || events_[event].event.end >= 0) return;
  TimelineEvent& e = events_[event].event;
  Warp& w = warp({e.cta, e.warp, 0});
  const std::vector<int64_t>& completed = barriers_[e.object].completed;
  int64_t step = e.begin + 1;
  if (e.phase >= 0 && e.phase < static_cast<int64_t>(completed.size()))
    step = std::max(step, completed[e.phase]);
  e.end = step;
  w.clock = std::max(w.clock, step);
}

// ---------------------------------------------------------------------------------------- result

void TimelineRecorder::mistake(Who who, Site site, const char* check, int other_warp) {
  const auto same = [&](const Raw& r) {
    return r.event.kind == EventKind::mistake && r.site == site && r.event.memory == check;
  };
  if (std::any_of(events_.begin(), events_.end(), same)) return;  // the first instance is enough
  const int event = add(who, EventKind::mistake, site);
  if (event < 0) return;
  events_[event].event.memory = check;
  events_[event].event.row = other_warp;
  events_[event].event.end = events_[event].event.begin + 1;
}

Timeline TimelineRecorder::result(int64_t block, int warps) const {
  Timeline timeline;
  for (const TimelineBarrier& b : barriers_)  // each CTA has one of its own
    timeline.ctas += b.kind == TimelineBarrier::Kind::block;
  timeline.block = block / timeline.ctas * timeline.ctas;
  timeline.warps = warps;
  timeline.barriers = barriers_;
  timeline.cut = cut_;
  for (const Raw& raw : events_) {
    TimelineEvent e = raw.event;
    const std::string file = raw.site.file == nullptr ? "" : raw.site.file;
    const bool named = raw.site.pc == 0 || file.ends_with(".cu");
    const Place p = named ? Place{{file, raw.site.line}, {}} : place_of(raw.site.pc);
    e.line = p.line;
    e.helper = p.helper;
    if (e.count == 0)
      e.count = raw.lanes == 0 ? 1
                               : (raw.calls + std::popcount(raw.lanes) - 1) /
                                     static_cast<int64_t>(std::popcount(raw.lanes));
    timeline.events.push_back(e);
  }
  std::stable_sort(
      timeline.events.begin(), timeline.events.end(),
      [](const TimelineEvent& a, const TimelineEvent& b) { return a.begin < b.begin; });
  return timeline;
}

}  // namespace gemm::sim
