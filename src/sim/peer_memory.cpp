#include "sim/peer_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "sim/global_memory.h"
#include "sim/source_lines.h"

namespace gemm::sim {

namespace {

// Actors: a stream; a block index in the launches of a stream; a thread's TMA stores there.
uint64_t key_of(int stream, int64_t block = -1, int thread = -1) {
  return static_cast<uint64_t>(stream) << 48 | static_cast<uint64_t>(block + 1) << 12 |
         static_cast<uint64_t>(thread + 1);
}

}  // namespace

// ------------------------------------------------------------------------------------- the memory

void PeerMemory::add(const void* first, size_t bytes, std::string name) {
  Region r{
      static_cast<const char*>(first),
      bytes,
      std::move(name),
      {static_cast<Shadow*>(std::calloc(std::max<size_t>(bytes, 1), sizeof(Shadow))), &std::free}};
  if (r.shadow == nullptr) throw std::bad_alloc();
  regions_.insert_or_assign(r.first, std::move(r));
}

void PeerMemory::remove(const void* first) { regions_.erase(static_cast<const char*>(first)); }

const PeerMemory::Region* PeerMemory::find(const void* p) const {
  const char* const c = static_cast<const char*>(p);
  auto it = regions_.upper_bound(c);
  if (it == regions_.begin()) return nullptr;
  --it;
  return static_cast<size_t>(c - it->second.first) < it->second.bytes ? &it->second : nullptr;
}

void PeerMemory::set_written(const void* p, size_t bytes) {
  Region* const r = find(p);
  if (r == nullptr) return;
  const size_t at = static_cast<const char*>(p) - r->first;
  std::fill_n(&r->shadow[at], std::min(bytes, r->bytes - at), Shadow{HOST, 0});
}

void PeerMemory::look_for_written() {
  constexpr size_t WORD = 4;
  for (auto& [first, r] : regions_)
    for (size_t at = 0; at < r.bytes; at += WORD) {
      const size_t end = std::min(at + WORD, r.bytes);
      if (std::all_of(first + at, first + end, [](char c) { return c == '\xff'; })) continue;
      for (size_t i = at; i < end; ++i)
        if (r.shadow[i].writer == NOBODY) r.shadow[i].writer = HOST;
    }
}

// ----------------------------------------------------------------------------------------- clocks

uint32_t PeerMemory::actor_of(uint64_t key) {
  const auto [it, fresh] = actors_.try_emplace(key, static_cast<uint32_t>(time_.size()));
  if (fresh) time_.push_back(1);
  return it->second;
}

void PeerMemory::join(Clock& clock, const Clock& more) {
  if (clock.size() < more.size()) clock.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) clock[i] = std::max(clock[i], more[i]);
}

void PeerMemory::set(Clock& clock, uint32_t actor, uint32_t time) {
  if (clock.size() <= actor) clock.resize(actor + 1);
  clock[actor] = std::max(clock[actor], time);
}

// What the party knows and has done until now; what it does from now on is later.
PeerMemory::Clock PeerMemory::publish(Party& party) {
  Clock clock = party.knows;
  set(clock, party.actor, time_[party.actor]++);
  return clock;
}

void PeerMemory::learn(Party& party, const Clock& more) {
  join(party.knows, more);
  ++time_[party.actor];
}

void PeerMemory::begin_run(int streams) {
  look_for_written();
  base_ += static_cast<uint32_t>(accesses_.size());
  accesses_.clear();
  first_set_ += static_cast<uint32_t>(sets_.size());
  sets_.clear();
  set_numbers_.clear();
  with_reader_.clear();
  flags_.clear();
  names_.clear();
  actors_.clear();
  time_.clear();
  streams_.assign(streams, {});
  for (int s = 0; s < streams; ++s) {
    Party& p = streams_[s];
    p.actor = actor_of(key_of(s));
    p.findings = &findings_;
  }
}

// --------------------------------------------------------------------------------------- accesses

std::string PeerMemory::name_of(const Access& a) const {
  return a.thread < 0 ? names_[a.name] : fmt::format("thread {} of {}", a.thread, names_[a.name]);
}

uint32_t PeerMemory::access_of(Party& party, uint32_t actor, int thread, AccessKind kind,
                               uintptr_t pc) {
  Party::Known& k = party.known[(pc >> 2 ^ pc) % std::size(party.known)];
  const uint32_t time = time_[actor];
  if (k.pc == pc && k.actor == actor && k.time == time && k.kind == kind && k.access >= base_)
    return k.access;
  accesses_.push_back({actor, time, party.actor, time_[party.actor], party.name, thread, pc, kind});
  k = {pc, actor, time, base_ + static_cast<uint32_t>(accesses_.size()) - 1, kind};
  return k.access;
}

// The set with this reader, and without those that come before it: a write that is in order with it
// is in order with them.
uint32_t PeerMemory::with_reader(const Party& party, uint32_t readers, uint32_t access) {
  if (readers < first_set_) readers = 0;
  const auto [it, fresh] = with_reader_.try_emplace(uint64_t{readers} << 32 | access, 0);
  if (!fresh) return it->second;
  std::vector<uint32_t> all;
  if (readers != 0)
    for (const uint32_t other : sets_[readers - first_set_])
      if (other != access && !known(party, party.knows, at(other))) all.push_back(other);
  all.insert(std::ranges::lower_bound(all, access), access);
  const auto [number, is_new] =
      set_numbers_.try_emplace(all, first_set_ + static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(std::move(all));
  return it->second = number->second;
}

// `clock`: what the access may rely on; `actor`: whose it is; `fresh_too`: of what nobody has written
// as well.
void PeerMemory::visit(Party& party, const Clock& clock, uint32_t actor, int thread,
                       uintptr_t address, size_t bytes, AccessKind kind, uintptr_t pc,
                       bool fresh_too) {
  Region* const r = find(reinterpret_cast<const void*>(address));
  if (r == nullptr) return;
  const size_t begin = address - reinterpret_cast<uintptr_t>(r->first);
  const size_t end = std::min(begin + bytes, r->bytes);
  const uint32_t self = access_of(party, actor, thread, kind, pc);
  uint32_t last_writer = self, last_readers = 0, next_readers = 0;  // that have been looked at
  bool told = false;
  const auto in_order = [&](uint32_t other) {
    const Access& a = at(other);
    return a.actor == actor || known(party, clock, a) ||
           (kind == AccessKind::atomic && a.kind == AccessKind::atomic);
  };
  for (size_t i = begin; i < end; ++i) {
    Shadow& s = r->shadow[i];
    if (s.writer == NOBODY && kind != AccessKind::write && !told && !fresh_too) {
      told = true;
      party.findings->add(Check::uninitialised, pc, 0, party.block, [&] {
        return fmt::format("{{line}}: {} reads byte {} of {}, which nobody has written",
                           party.who(), i, r->name);
      });
    }
    if (s.writer >= base_ && s.writer != last_writer) {
      last_writer = s.writer;
      if (!told && !in_order(s.writer)) {
        told = true;
        report(party, clock, *r, i, kind, pc, at(s.writer));
      }
    }
    if (kind == AccessKind::read) {
      if (s.readers != last_readers || next_readers == 0) {
        last_readers = s.readers;
        next_readers = with_reader(party, s.readers, self);
      }
      s.readers = next_readers;
      continue;
    }
    if (s.readers >= first_set_ && s.readers != last_readers) {
      last_readers = s.readers;
      for (const uint32_t other : sets_[s.readers - first_set_])
        if (!told && !in_order(other)) {
          told = true;
          report(party, clock, *r, i, kind, pc, at(other));
        }
    }
    s = {self, 0};
  }
}

void PeerMemory::report(Party& party, const Clock& clock, const Region& region, size_t at,
                        AccessKind kind, uintptr_t pc, const Access& other) {
  const bool by_tma = &clock == &party.by_tma;
  const auto says = [&](const char* what) {
    return fmt::format("{{line}}: {} {} byte {} of {}, which {} {} at {{other}}, {}", party.who(),
                       verb(kind), at, region.name, name_of(other), verb(other.kind), what);
  };
  if (by_tma && known(party, party.knows, other))
    return party.findings->add(Check::proxy_fence, pc, other.pc, party.block, [&] {
      return says("by TMA, and no fence_proxy_async_global follows the wait that orders the two");
    });
  if (other.actor != other.issuer &&
      (other.issuer == party.actor || covers(party.knows, other.issuer, other.issued)))
    return party.findings->add(Check::unfinished_store, pc, other.pc, party.block, [&] {
      return says("by TMA, and no tma_store_wait came before what orders the two");
    });
  party.findings->add(Check::race, pc, other.pc, party.block,
                      [&] { return says("and nothing orders the two"); });
}

// ---------------------------------------------------------------------------------------- streams

void PeerMemory::begin_operation(int stream, std::string name) {
  Party& p = streams_[stream];
  p.name = static_cast<int>(names_.size());
  p.who = [name] { return name; };
  names_.push_back(std::move(name));
  ++time_[p.actor];
}

void PeerMemory::access(int stream, const void* p, size_t bytes, AccessKind kind, uintptr_t pc) {
  Party& s = streams_[stream];
  visit(s, s.knows, s.actor, -1, reinterpret_cast<uintptr_t>(p), bytes, kind, pc);
}

void PeerMemory::copy(int stream, const void* to, const void* from, size_t bytes, uintptr_t pc) {
  Party& s = streams_[stream];
  visit(s, s.knows, s.actor, -1, reinterpret_cast<uintptr_t>(from), bytes, AccessKind::read, pc,
        true);
  access(stream, to, bytes, AccessKind::write, pc);
  const Region* const source = find(from);
  Region* const target = find(to);
  if (source == nullptr || target == nullptr) return;
  const size_t source_at = static_cast<const char*>(from) - source->first,
               target_at = static_cast<const char*>(to) - target->first;
  const size_t length = std::min({bytes, source->bytes - source_at, target->bytes - target_at});
  for (size_t i = 0; i < length; ++i)
    if (source->shadow[source_at + i].writer == NOBODY)
      target->shadow[target_at + i].writer = NOBODY;
}

void PeerMemory::write_value(int stream, const uint32_t* flag, uint32_t value) {
  Party& p = streams_[stream];
  flags_[flag].push_back({value, publish(p)});
  set_written(flag, sizeof *flag);
}

PeerMemory::Clock PeerMemory::record(int stream) { return publish(streams_[stream]); }

void PeerMemory::wait(int stream, const Clock& event) { learn(streams_[stream], event); }

PeerMemory::Grid PeerMemory::begin_grid(int stream, int device) {
  return {stream, device, publish(streams_[stream]), {}};
}

void PeerMemory::end_grid(const Grid& grid) { learn(streams_[grid.stream], grid.end); }

// ----------------------------------------------------------------------------------------- blocks

std::unique_ptr<PeerMemory::Party> PeerMemory::begin_block(const Grid& grid, int64_t block,
                                                           Findings& findings,
                                                           std::function<std::string()> who) {
  auto p = std::make_unique<Party>();
  p->actor = actor_of(key_of(grid.stream, block));
  p->name = static_cast<int>(names_.size());
  names_.push_back(fmt::format("block {} of device {}", block, grid.device));
  p->knows = p->by_tma = grid.begin;
  p->stream = grid.stream;
  p->block = block;
  p->findings = &findings;
  p->who = std::move(who);
  return p;
}

void PeerMemory::end_block(Grid& grid, Party& party) {
  for (const auto& [thread, stores] : party.stores)
    set(party.knows, stores.actor, time_[stores.actor]++);
  join(grid.end, publish(party));
}

void PeerMemory::meet(const std::vector<Party*>& parties) {
  Clock all;
  for (Party* const p : parties) join(all, publish(*p));
  for (Party* const p : parties) learn(*p, all);
}

void PeerMemory::access(Party& party, int thread, uintptr_t address, size_t bytes, AccessKind kind,
                        uintptr_t pc) {
  visit(party, party.knows, party.actor, thread, address, bytes, kind, pc);
}

void PeerMemory::tma_access(Party& party, int thread, uintptr_t address, size_t bytes,
                            AccessKind kind, uintptr_t pc) {
  if (kind == AccessKind::read)
    return visit(party, party.by_tma, party.actor, thread, address, bytes, kind, pc);
  const auto [it, fresh] = party.stores.try_emplace(thread);
  if (fresh) it->second.actor = actor_of(key_of(party.stream, party.block, thread));
  visit(party, party.knows, it->second.actor, thread, address, bytes, kind, pc);
}

void PeerMemory::tma_commit(Party& party, int thread) {
  const auto it = party.stores.find(thread);
  if (it == party.stores.end()) return;
  it->second.groups.push_back(time_[it->second.actor]++);
}

void PeerMemory::tma_wait(Party& party, int thread, int pending) {
  const auto it = party.stores.find(thread);
  if (it == party.stores.end()) return;
  Party::Stores& s = it->second;
  for (; s.groups.size() > static_cast<size_t>(pending); s.groups.pop_front()) {
    set(party.knows, s.actor, s.groups.front());
    set(party.by_tma, s.actor, s.groups.front());
  }
  ++time_[party.actor];
}

// ------------------------------------------------------------------------------------------ flags

void PeerMemory::check_flag(Party& party, const uint32_t* flag, uintptr_t pc) {
  const Region* const r = find(flag);
  if (r == nullptr) return;
  const size_t at = reinterpret_cast<const char*>(flag) - r->first;
  if (r->shadow[at].writer != NOBODY) return;
  party.findings->add(Check::uninitialised, pc, 0, party.block, [&] {
    return fmt::format(
        "{{line}}: {} uses the flag at byte {} of {}, which nobody has set to a "
        "first value",
        party.who(), at, r->name);
  });
}

// Who adds hands on what those before have released, too.
void PeerMemory::release(Party& party, const uint32_t* flag, uint32_t before, uint32_t after,
                         bool adds, uintptr_t pc) {
  check_flag(party, flag, pc);
  std::vector<Raised>& raised = flags_[flag];
  Clock knows = publish(party);
  if (adds && !raised.empty() && raised.back().value == before) join(knows, raised.back().knows);
  raised.push_back({after, std::move(knows)});
  set_written(flag, sizeof *flag);
}

// Whatever the flag is now: who waits may have seen it at the first value that is enough.
void PeerMemory::acquire(Party& party, const uint32_t* flag, uint32_t at_least, uintptr_t pc) {
  check_flag(party, flag, pc);
  for (const Raised& r : flags_[flag])
    if (static_cast<int32_t>(r.value - at_least) >= 0) return learn(party, r.knows);
  const Region* const r = find(flag);
  if (r == nullptr) return;
  const size_t at = reinterpret_cast<const char*>(flag) - r->first;
  const uint32_t writer = r->shadow[at].writer;
  if (writer < base_ || known(party, party.knows, this->at(writer))) return;
  const Access& other = this->at(writer);
  party.findings->add(Check::race, pc, other.pc, party.block, [&] {
    return fmt::format(
        "{{line}}: {} waits for the flag at byte {} of {}, which {} raises at "
        "{{other}} without a release: nothing orders what it announces",
        party.who(), at, r->name, name_of(other));
  });
}

}  // namespace gemm::sim
