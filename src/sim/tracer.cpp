#include "sim/tracer.h"

#include <pthread.h>

#include <bit>
#include <limits>

#include "sim/cluster.h"
#include "sim/diagnosis.h"
#include "sim/source_lines.h"

// The image in memory of the program, or of the shared library that this is linked into, as the
// linker lays it out: constants lie there.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;

namespace gemm::sim {

namespace {
constexpr size_t BANK_ROW = 128;  // bytes
}

TraceSession::TraceSession(const TraceOptions& o)
    : options(o), matrices(o.matrices), written(o.matrices.size()) {
  pthread_attr_t attributes;
  void* begin = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &begin, &stack_bytes);
  pthread_attr_destroy(&attributes);
  stack_begin = reinterpret_cast<uintptr_t>(begin);
  for (const Matrix& m : o.matrices)
    writers.push_back(m.written_once ? std::make_unique<Writers>(m) : nullptr);
}

void TraceSession::add_workspace(void* allocation, size_t allocation_bytes, void* first,
                                 size_t bytes) {
  uint8_t* known = nullptr;
  if (options.blocks.empty()) {  // else what is read may be what blocks left out would have written
    initialised.push_back(std::make_unique<uint8_t[]>(bytes));
    known = initialised.back().get();
  }
  add("workspace", allocation, allocation_bytes, first, bytes, known);
}

void TraceSession::add_memory(std::string name, void* allocation, size_t allocation_bytes,
                              void* first, size_t bytes) {
  for (const Matrix& m : matrices)
    if (m.first == first) return;
  add(std::move(name), allocation, allocation_bytes, first, bytes, nullptr);
}

void TraceSession::add(std::string name, void* allocation, size_t allocation_bytes, void* first,
                       size_t bytes, uint8_t* known) {
  constexpr size_t MOST = 255;  // Location::matrix
  if (matrices.size() >= MOST) fail("a trace knows {} matrices and workspaces at most", MOST);
  matrices.push_back({.name = std::move(name),
                      .allocation = allocation,
                      .allocation_bytes = allocation_bytes,
                      .first = first,
                      .rows = 1,
                      .cols = static_cast<int64_t>(bytes),
                      .ld = static_cast<int64_t>(bytes),
                      .element = 1,
                      .writable = true,
                      .initialised = known});
  writers.push_back(nullptr);
  written.emplace_back();
}

void TraceSession::zero_workspace(void* first) {
  for (Matrix& m : matrices)
    if (m.first == first && m.initialised != nullptr) std::fill_n(m.initialised, m.cols, 1);
}

void TraceSession::remove_workspace(void* first) {
  for (size_t i = options.matrices.size(); i < matrices.size(); ++i)
    if (matrices[i].first == first) matrices[i].allocation_bytes = 0, matrices[i].first = nullptr;
}

std::string TraceSession::name(Target target) const {
  if (!is_shared(target)) return matrices[target - 1].name;
  const size_t variable = target - SHARED;
  return variable < shared_variables().size() ? shared_variables()[variable].name : "dynamic";
}

Tracer::Tracer(TraceSession& session, const TracedLaunch& launch, const Scheduler& scheduler,
               const SharedMemory& shared)
    : session_(session),
      launch_(launch),
      scheduler_(scheduler),
      shared_(shared),
      static_begin_(reinterpret_cast<uintptr_t>(shared.statics())),
      dynamic_begin_(reinterpret_cast<uintptr_t>(shared.dynamic())),
      stacks_begin_(reinterpret_cast<uintptr_t>(scheduler.stacks())),
      static_bytes_(shared.static_size()),
      stacks_bytes_(scheduler.stacks_size()),
      dynamic_offset_((static_bytes_ / BANK_ROW + 2) * BANK_ROW),
      global_(session.matrices, session.writers) {
  if (!session.options.timeline || launch.device >= 0) return;
  std::lock_guard lock(session.mutex);
  timeline_ = &session.timelines[launch_.index];
}

Tracer::~Tracer() {
  std::lock_guard lock(session_.mutex);
  for (const SiteInfo& s : sites_)
    for (const auto& [target, traffic] : s.traffic)
      session_.traffic[{s.pc, s.kind, target, launch_.index}] += traffic;
  session_.requests.insert(session_.requests.end(), requests_.begin(), requests_.end());
  session_.findings.merge(findings_);
  for (size_t i = 0; i < global_.written().size(); ++i) {
    Written& sum = session_.written[i];
    const Written& w = global_.written()[i];
    sum.row_begin = std::min(sum.row_begin, w.row_begin);
    sum.row_end = std::max(sum.row_end, w.row_end);
    sum.col_begin = std::min(sum.col_begin, w.col_begin);
    sum.col_end = std::max(sum.col_end, w.col_end);
    sum.elements += w.elements;
  }
}

void Tracer::begin_block(int64_t block, int rank, int threads) {
  block_ = block;
  rank_ = rank;
  threads_ = threads;
  gather();
  dynamic_bytes_ = shared_.dynamic_size();
  races_.begin_block(threads, dynamic_offset_ + dynamic_bytes_);
  if (launch_.memory != nullptr)
    party_ = launch_.memory->begin_block(*launch_.grid, block, findings_, [this] { return who(); });
  if (timeline_ != nullptr)
    timeline_->declare(this, {TimelineBarrier::Kind::block, rank, 0, threads, false, {}});
}

void Tracer::end_block() {
  if (party_ != nullptr) launch_.memory->end_block(*launch_.grid, *party_);
  party_.reset();
  for (int w = 0; w * WARP < threads_; ++w) flush(w);
}

// ------------------------------------------------------------------------------------- accesses

GEMM_SIM_INLINE Tracer::Site Tracer::site(uintptr_t pc, AccessKind kind) {
  const uintptr_t key = pc << 2 | static_cast<uintptr_t>(kind);
  for (size_t i = key * 0x9E3779B97F4A7C15 >> (64 - SLOT_BITS);; i = (i + 1) % slots_.size()) {
    if (slots_[i].key == key) return slots_[i].site;
    if (slots_[i].key != 0) continue;
    slots_[i] = {key, new_site(pc, kind)};
    return slots_[i].site;
  }
}

Tracer::Site Tracer::new_site(uintptr_t pc, AccessKind kind) {
  if (sites_.size() >= slots_.size() / 2) fail("the tracer knows {} instructions", sites_.size());
  sites_.push_back({pc, kind, {}});
  return static_cast<Site>(sites_.size() - 1);
}

GEMM_SIM_INLINE void Tracer::log(Site site, uint8_t matrix, uint32_t address, int bytes) {
  const int lane = scheduler_.lane();
  std::unique_ptr<WarpLog>& log = logs_[scheduler_.warp()];
  if (log == nullptr) {
    if (spare_logs_.empty()) spare_logs_.push_back(std::make_unique<WarpLog>());
    log = std::move(spare_logs_.back());
    spare_logs_.pop_back();
  }
  while (log->sites.size() <= site) log->sites.push_back(std::make_unique<SiteLog>());
  SiteLog& s = *log->sites[site];
  const uint32_t n = s.count[lane]++;
  if (n == s.used) {
    if (n == 0) log->used.push_back(site);
    if (++s.used > s.requests.size()) s.requests.emplace_back();
    s.requests[n].lanes = 0;
    s.requests[n].bytes = static_cast<uint8_t>(bytes);
    s.requests[n].matrix = matrix;
    if (timeline_ != nullptr) tell(s, site, matrix, address);
  }
  s.requests[n].lanes |= 1u << lane;
  s.requests[n].address[lane] = address;
}

namespace {

EventKind event_of(AccessKind kind, bool shared) {
  if (kind == AccessKind::atomic) return EventKind::atomic;
  if (kind == AccessKind::read) return shared ? EventKind::shared_load : EventKind::global_load;
  return shared ? EventKind::shared_store : EventKind::global_store;
}

}  // namespace

// A new request to the timeline. Repeated loads of shared memory are left out, as in the counts.
void Tracer::tell(SiteLog& s, Site site, uint8_t matrix, uint32_t address) {
  const SiteInfo& info = sites_[site];
  if (info.copies) return;
  const bool shared = matrix == 0;
  if (shared && info.kind == AccessKind::read && !s.told.insert(address).second) return;
  timeline_->request(me(), event_of(info.kind, shared), TimelineRecorder::Site(info.pc));
}

// Offsets keep an address's place in the banks.
GEMM_SIM_INLINE uint32_t Tracer::shared_offset(uintptr_t address) const {
  if (address - static_begin_ < static_bytes_)
    return static_cast<uint32_t>(address - static_begin_ + static_begin_ % BANK_ROW);
  return static_cast<uint32_t>(address - dynamic_begin_ + dynamic_offset_);
}

void Tracer::shared_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc) {
  // threadIdx and its like are not shared memory, though they lie among it.
  if (address - reinterpret_cast<uintptr_t>(&this_thread) < sizeof(ThisThread)) return;
  const Site s = site(pc, kind);
  const uint32_t at = shared_offset(address);
  log(s, 0, at, bytes);
  const int thread = scheduler_.thread();
  if (kind == AccessKind::read)
    add(races_.read(thread, at, bytes, s));
  else
    add(races_.write(thread, at, bytes, s));
}

void Tracer::global_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc) {
  const uint8_t matrix = global_.find(address);
  if (matrix == 0) return stray_access(address, bytes, kind, pc);
  log(site(pc, kind), matrix, static_cast<uint32_t>(address), bytes);
  const size_t known = findings_.all().size();
  global_.access(matrix, address, bytes, kind, pc, block_, scheduler_.thread(), findings_,
                 [&] { return who(); });
  if (party_ != nullptr)
    launch_.memory->access(*party_, scheduler_.thread(), address, bytes, kind, pc);
  if (timeline_ != nullptr && findings_.all().size() > known)
    timeline_->mistake(me(), TimelineRecorder::Site(pc), "wrong access", -1);
}

// Neither stack, nor shared memory, nor a matrix. Parameters and constants are all else that a
// kernel has; the rest would crash the program, or worse.
void Tracer::stray_access(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc) {
  const uintptr_t image = reinterpret_cast<uintptr_t>(&__ehdr_start);
  if (address - image < reinterpret_cast<uintptr_t>(&_end) - image ||
      address - session_.stack_begin < session_.stack_bytes ||
      address - launch_.arguments < launch_.argument_bytes)
    return;
  // Distributed shared memory.
  if (const Block* peer = this_thread.block->cluster->owner(reinterpret_cast<void*>(address))) {
    if (kind != AccessKind::read)
      peer->tracer->written_from_outside(reinterpret_cast<void*>(address), bytes, pc);
    return;
  }
  findings_.add(Check::out_of_bounds, pc, 0, block_, [&] {
    return fmt::format("{{line}}: {} {} {}", who(), verb(kind), global_.nearest(address, bytes));
  });
  fail("{}: an access far outside every matrix ends the launch",
       scheduler_.name(scheduler_.thread()));
}

void Tracer::misaligned(uintptr_t address, int bytes, AccessKind kind, uintptr_t pc) {
  if (timeline_ != nullptr)
    timeline_->mistake(me(), TimelineRecorder::Site(pc), "misaligned access", -1);
  findings_.add(Check::misaligned, pc, 0, block_, [&] {
    return fmt::format("{{line}}: {} {} {} bytes at {} bytes past a multiple of {}", who(),
                       verb(kind), bytes, address % bytes, bytes);
  });
}

void Tracer::copy_issued(const void* to, const void* from, int bytes, int src_bytes, uintptr_t pc) {
  const Site s = site(pc, AccessKind::write), loads = site(pc, AccessKind::read);
  sites_[s].copies = sites_[loads].copies = true;
  if (src_bytes > 0)
    global_access(reinterpret_cast<uintptr_t>(from), src_bytes, AccessKind::read, pc);
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(to));
  log(s, 0, at, bytes);
  add(races_.copy_issued(scheduler_.thread(), at, bytes, s));
  if (timeline_ != nullptr)
    timeline_->issue(me(), EventKind::cp_async, TimelineRecorder::Site(pc), src_bytes,
                     matrix_name(from));
}

void Tracer::copy_landed(const void* to, int bytes) {
  races_.copy_landed(scheduler_.thread(), shared_offset(reinterpret_cast<uintptr_t>(to)), bytes);
}

namespace {
constexpr int PIECE = 16;  // bytes
}

void Tracer::bulk_issued(const void* to, size_t bytes, uintptr_t pc) {
  const Site s = site(pc, AccessKind::write);
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(to));
  for (size_t i = 0; i < bytes; i += PIECE)
    add(races_.copy_issued(scheduler_.thread(), at + i, PIECE, s));
}

void Tracer::bulk_landed(int thread, const void* to, size_t bytes, const void* barrier) {
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(to));
  for (size_t i = 0; i < bytes; i += PIECE) races_.copy_landed(thread, at + i, PIECE);
  races_.release(thread, barrier);
}

void Tracer::written_from_outside(const void* to, size_t bytes, uintptr_t pc) {
  races_.written_from_outside(shared_offset(reinterpret_cast<uintptr_t>(to)), bytes,
                              site(pc, AccessKind::write));
}

void Tracer::mbarrier_init(const void* barrier, std::source_location where) {
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(barrier));
  const Site s = site(pc_of(where), AccessKind::write);
  add(races_.write(scheduler_.thread(), at, sizeof(uint64_t), s));
}

void Tracer::mbarrier_use(const void* barrier, std::source_location where) {
  Races::Report report =
      races_.use(scheduler_.thread(), shared_offset(reinterpret_cast<uintptr_t>(barrier)));
  if (report.kind == Races::Report::none) return;
  report.site = site(pc_of(where), AccessKind::read);
  add(report);
}

void Tracer::store_issued(const void* from, size_t bytes, uintptr_t pc) {
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(from));
  add(races_.store_issued(scheduler_.thread(), at, bytes, site(pc, AccessKind::read)));
}

void Tracer::store_has_read(const void* from, size_t bytes, uintptr_t pc) {
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(from));
  add(races_.store_has_read(scheduler_.thread(), at, bytes, site(pc, AccessKind::read)));
}

void Tracer::bulk_read(const void* from, size_t bytes, uintptr_t pc) {
  const Site s = site(pc, AccessKind::read);
  const uint32_t at = shared_offset(reinterpret_cast<uintptr_t>(from));
  for (size_t i = 0; i < bytes; i += PIECE) add(races_.read(scheduler_.thread(), at + i, PIECE, s));
}

void Tracer::bulk_global(const void* p, size_t bytes, AccessKind kind, uintptr_t pc) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const uint8_t matrix = global_.find(address);
  if (matrix == 0) return stray_access(address, bytes, kind, pc);
  global_.access(matrix, address, bytes, kind, pc, block_, scheduler_.thread(), findings_,
                 [&] { return who(); });
  if (party_ != nullptr)
    launch_.memory->tma_access(*party_, scheduler_.thread(), address, bytes, kind, pc);
}

void Tracer::bulk_committed() {
  if (party_ != nullptr) launch_.memory->tma_commit(*party_, scheduler_.thread());
}

void Tracer::bulk_complete(int pending) {
  if (party_ != nullptr) launch_.memory->tma_wait(*party_, scheduler_.thread(), pending);
}

void Tracer::signal_release(const uint32_t* flag, uint32_t before, uint32_t after, bool adds,
                            uintptr_t pc) {
  if (party_ != nullptr) launch_.memory->release(*party_, flag, before, after, adds, pc);
}

void Tracer::signal_acquire(const uint32_t* flag, uint32_t at_least, uintptr_t pc) {
  if (party_ != nullptr) launch_.memory->acquire(*party_, flag, at_least, pc);
}

void Tracer::meet(const std::vector<Tracer*>& blocks) {
  std::vector<PeerMemory::Party*> parties;
  for (const Tracer* const b : blocks)
    if (b->party_ != nullptr) parties.push_back(b->party_.get());
  if (parties.size() > 1) blocks[0]->launch_.memory->meet(parties);
}

void Tracer::proxy_fence() {
  if (party_ != nullptr) launch_.memory->proxy_fence(*party_);
}

// -------------------------------------------------------------------------------------- findings

// The variable that holds this byte of shared memory, and the byte's place in it.
Tracer::Variable Tracer::variable(uint32_t at) const {
  const std::vector<SharedVariable>& all = shared_variables();
  const Variable none{static_cast<Target>(SHARED + all.size()),
                      at < dynamic_offset_ ? 0 : at - dynamic_offset_};
  if (at >= dynamic_offset_) return none;
  const size_t offset = at - static_begin_ % BANK_ROW + shared_.tls_offset();
  const auto after =
      std::upper_bound(all.begin(), all.end(), offset,
                       [](size_t offset, const SharedVariable& v) { return offset < v.begin; });
  if (after == all.begin() || offset >= (after - 1)->end) return none;
  return {static_cast<Target>(SHARED + (after - 1 - all.begin())), offset - (after - 1)->begin};
}

std::string Tracer::byte_name(uint32_t at) const {
  const Variable v = variable(at);
  return fmt::format("byte {} of {}", v.byte, session_.name(v.target));
}

std::string Tracer::who() const {
  return fmt::format("{} of block {}{}", scheduler_.name(scheduler_.thread()), block_,
                     launch_.device < 0 ? "" : fmt::format(" of device {}", launch_.device));
}

namespace {

const char* name_of(Races::Report::Kind kind) {
  using Report = Races::Report;
  if (kind == Report::uninitialised) return "uninitialised read";
  return kind == Report::pending ? "missing wait" : "race";
}

}  // namespace

GEMM_SIM_INLINE void Tracer::add(const Races::Report& r) {
  using Report = Races::Report;
  if (r.kind == Report::none) [[likely]]
    return;
  const uintptr_t pc = sites_[r.site].pc,
                  other = r.kind == Report::uninitialised ? 0 : sites_[r.other].pc;
  const auto atomic = [&](Site s) { return sites_[s].kind == AccessKind::atomic; };
  if (r.kind == Report::race && atomic(r.site) && atomic(r.other)) return;
  if (timeline_ != nullptr)
    timeline_->mistake(me(), TimelineRecorder::Site(pc), name_of(r.kind),
                       other == 0 ? -1 : r.other_thread / WARP);
  const auto does = [](bool write) { return write ? "writes" : "reads"; };
  switch (r.kind) {
    case Report::race:
      return findings_.add(Check::race, pc, other, block_, [&] {
        return fmt::format(
            "{{line}}: {} {} {}, which {} {} at {{other}}, and nothing orders the two", who(),
            does(r.write), byte_name(r.at), scheduler_.name(r.other_thread), does(r.other_write));
      });
    case Report::being_read:
      return findings_.add(Check::race, pc, other, block_, [&] {
        return fmt::format(
            "{{line}}: {} writes {}, which the TMA store of {} at {{other}} may still be reading: "
            "no "
            "wait for it has returned",
            who(), byte_name(r.at), scheduler_.name(r.other_thread));
      });
    case Report::pending:
      if (!sites_[r.other].copies)
        return findings_.add(Check::pending_load, pc, other, block_, [&] {
          return fmt::format(
              "{{line}}: {} {} {}, which the TMA load at {{other}} is still writing: wait for its "
              "mbarrier",
              who(), does(r.write), byte_name(r.at));
        });
      return findings_.add(Check::pending_copy, pc, other, block_, [&] {
        return fmt::format(
            "{{line}}: {} {} {}, which the cp.async of {} at {{other}} is still writing: no wait "
            "for "
            "it has returned",
            who(), does(r.write), byte_name(r.at), scheduler_.name(r.other_thread));
      });
    default:
      return findings_.add(Check::uninitialised, pc, 0, block_, [&] {
        return fmt::format("{{line}}: {} reads {}, which nobody has written", who(),
                           byte_name(r.at));
      });
  }
}

// --------------------------------------------------------------------------------- synchronising

const char* Tracer::matrix_name(const void* p) const {
  const uint8_t matrix = global_.find(reinterpret_cast<uintptr_t>(p));
  return matrix == 0 ? "" : session_.matrices[matrix - 1].name.c_str();
}

// A new barrier to arrive at.
void Tracer::gather() {
  at_barrier_ = 0;
  for (int w = 0; w * WARP < threads_; ++w) apart_[w] = std::min(WARP, threads_ - w * WARP);
}

// The running thread reaches a barrier or its end: the warp's last, of which this tells, completes its
// requests.
bool Tracer::arrive() {
  const bool last = --apart_[scheduler_.warp()] == 0;
  if (last) flush(scheduler_.warp());
  return last;
}

void Tracer::barrier(std::source_location where) {
  const bool last = arrive();
  if (timeline_ != nullptr && last) {
    const int event =
        timeline_->wait(me(), EventKind::barrier, where, this, timeline_->phases(this));
    timeline_->arrive_at(this, timeline_->begin_of(event) + 1);
  }
  if (++at_barrier_ < threads_) return;
  gather();
  races_.barrier();
  if (timeline_ != nullptr) timeline_->complete(this);
}

void Tracer::exit_thread() { arrive(); }

void Tracer::collective(uint32_t lanes, bool orders_memory) {
  const int warp = scheduler_.warp();
  if (lanes == scheduler_.lanes_of(warp)) flush(warp);
  if (orders_memory) races_.sync_warp(warp * WARP, lanes);
}

// -------------------------------------------------------------------------------------- requests

namespace {

bool same(const WarpRequest& a, const WarpRequest& b) {
  if (a.lanes != b.lanes || a.bytes != b.bytes || a.matrix != b.matrix) return false;
  for (uint32_t rest = a.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (a.address[lane] != b.address[lane]) return false;
  }
  return true;
}

uint64_t hash(const WarpRequest& r) {
  uint64_t h = r.lanes;
  for (uint32_t rest = r.lanes; rest != 0; rest &= rest - 1)
    h = h * 0x9E3779B97F4A7C15 + r.address[std::countr_zero(rest)];
  return h * 0x9E3779B97F4A7C15 >> 32;
}

SharedAccess shared_access_of(AccessKind kind) {
  return kind == AccessKind::read ? SharedAccess::load : SharedAccess::store;
}

}  // namespace

void Tracer::keep_first(const TraceSession::Key& key, const WarpRequest& r, int warp) {
  int64_t& kept = kept_[{key, warp}];
  if (kept >= session_.options.first_requests) return;
  FirstRequest& first = requests_.emplace_back(key, FirstRequest{}).second;
  first.repeats = kept++;
  first.warp = warp;
  first.bytes = r.bytes;
  first.lanes = r.lanes;
  first.passes = r.matrix == 0 ? wavefronts(r, shared_access_of(key.kind), first.wavefront.data())
                               : sectors(r);
  first.ideal = r.matrix == 0 ? ideal_wavefronts(r, shared_access_of(key.kind)) : ideal_sectors(r);
  for (uint32_t rest = r.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const uint32_t at = r.address[lane];
    if (r.matrix == 0) {
      first.offset[lane] = static_cast<int64_t>(variable(at).byte);
      first.first_bank = static_cast<int>((at - variable(at).byte) / 4 % 32);
    } else {  // the low halves of two addresses that are less than 2 GiB apart
      const auto begin = reinterpret_cast<uintptr_t>(session_.matrices[r.matrix - 1].first);
      first.offset[lane] = static_cast<int32_t>(at - static_cast<uint32_t>(begin));
    }
  }
}

// Adds the warp's requests to the totals and forgets them.
void Tracer::flush(int warp) {
  std::unique_ptr<WarpLog>& log = logs_[warp];
  if (log == nullptr) return;
  const std::optional<WarpId>& wanted = session_.options.watched;
  const bool watched =
      wanted && wanted->block == block_ && (wanted->warp == WarpId::ALL || wanted->warp == warp);
  for (const Site site : log->used) {
    SiteLog& s = *log->sites[site];
    SiteInfo& info = sites_[site];
    const bool may_repeat = info.kind == AccessKind::read && s.used > 1;
    const size_t mask = std::bit_ceil(s.used * 2) - 1;
    if (may_repeat) seen_.assign(mask + 1, 0);
    for (size_t n = 0; n < s.used; ++n) {
      const WarpRequest& r = s.requests[n];
      const bool shared = r.matrix == 0;
      const Target target =
          shared ? variable(r.address[std::countr_zero(r.lanes)]).target : r.matrix;
      Traffic& t = info.traffic[target];
      if (watched) keep_first({info.pc, info.kind, target, launch_.index}, r, warp);
      if (may_repeat && shared) {
        size_t slot = hash(r) & mask;
        while (seen_[slot] != 0 && !same(s.requests[seen_[slot] - 1], r)) slot = (slot + 1) & mask;
        if (seen_[slot] != 0) {
          ++t.repeated;
          continue;
        }
        seen_[slot] = static_cast<uint32_t>(n + 1);
      }
      ++t.requests;
      t.bytes += std::popcount(r.lanes) * r.bytes;
      const SharedAccess access = shared_access_of(info.kind);
      t.passes += shared ? wavefronts(r, access) : sectors(r);
      t.ideal += shared ? ideal_wavefronts(r, access) : ideal_sectors(r);
    }
    s.told.clear();
    std::fill_n(s.count, WARP, 0);
    s.used = 0;
  }
  log->used.clear();
  spare_logs_.push_back(std::move(log));
}

}  // namespace gemm::sim
