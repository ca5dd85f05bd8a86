// What is queued on the streams of several devices, and who runs next. Blocks of kernels run on OS
// threads of their own, since a __shared__ variable belongs to one, but only ever one of them at a
// time: each runs until nothing in its cluster can go on without a flag from outside. So the order
// is fixed, and when nobody can go on, that is a deadlock.
#include "sim/devices.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "sim/diagnosis.h"
#include "sim/launch.h"
#include "sim/source_lines.h"

namespace gemm::sim {

namespace {

// What an SM has (CUDA programming guide, "compute capability 9.0"). Registers are not counted.
constexpr int SMS = Devices::SMS;
constexpr int SM_THREADS = 2048, SM_BLOCKS = 32;
constexpr size_t SM_SHARED = 228 * 1024, SHARED_OF_BLOCK = 1024;  // that each block takes beside

struct Sm {
  int threads = 0, blocks = 0;
  size_t shared = 0;
};

// Where the blocks of a cluster run: SMs by block.
using Places = std::vector<int>;

class Device {
 public:
  // Places for a cluster, taken from now on; empty: there are not enough.
  Places take(const LaunchConfig& config) {
    std::vector<Sm> after = sms_;
    Places places;
    for (int i = 0; i < config.cluster; ++i) {
      int best = -1;  // the one that does least
      for (int sm = 0; sm < SMS; ++sm)
        if (fits(after[sm], config) && (best < 0 || after[sm].threads < after[best].threads))
          best = sm;
      if (best < 0) return {};
      add(after[best], config, 1);
      places.push_back(best);
    }
    sms_ = after;
    return places;
  }
  void give(const LaunchConfig& config, const Places& places) {
    for (const int sm : places) add(sms_[sm], config, -1);
  }

 private:
  static int threads(const LaunchConfig& c) {
    return static_cast<int>(c.block.x * c.block.y * c.block.z);
  }
  static bool fits(const Sm& sm, const LaunchConfig& c) {
    return sm.threads + threads(c) <= SM_THREADS && sm.blocks < SM_BLOCKS &&
           sm.shared + c.smem + SHARED_OF_BLOCK <= SM_SHARED;
  }
  static void add(Sm& sm, const LaunchConfig& c, int sign) {
    sm.threads += sign * threads(c);
    sm.blocks += sign;
    sm.shared += sign * (c.smem + SHARED_OF_BLOCK);
  }
  std::vector<Sm> sms_ = std::vector<Sm>(SMS);
};

// Memory from Devices::allocate.
struct Allocation {
  static constexpr size_t GUARD = 4096;  // so that a stray access is told by its distance
  char* first;
  size_t bytes;
  int device;
  std::string name;

  bool holds(const void* p) const {
    return static_cast<size_t>(static_cast<const char*>(p) - first) < bytes;
  }
  void* begin() const { return first - GUARD; }
  size_t size() const { return (bytes + 2 * GUARD + 255) / 256 * 256; }
};

// Who asks where a flag lies.
class Memory {
 public:
  char* add(int device, size_t bytes, std::string name) {
    Allocation a{nullptr, bytes, device, std::move(name)};
    char* const p = static_cast<char*>(std::aligned_alloc(256, a.size()));
    if (p == nullptr) throw std::bad_alloc();
    std::memset(p, 0xff, a.size());
    a.first = p + Allocation::GUARD;
    all_.emplace(a.first, a);
    return a.first;
  }
  bool remove(void* p) {
    const auto it = all_.find(static_cast<char*>(p));
    if (it == all_.end()) return false;
    std::free(it->second.begin());
    all_.erase(it);
    return true;
  }
  // The allocation that holds the byte; null: none.
  const Allocation* find(const void* p) const {
    auto it = all_.upper_bound(static_cast<char*>(const_cast<void*>(p)));
    if (it == all_.begin()) return nullptr;
    return (--it)->second.holds(p) ? &it->second : nullptr;
  }
  // "arrived[3] of device 1"
  std::string name_of_flag(const void* p) const {
    const Allocation* const a = find(p);
    if (a == nullptr) return fmt::format("the flag at {}", p);
    const size_t index = (static_cast<const char*>(p) - a->first) / sizeof(uint32_t);
    return fmt::format("{}[{}] of device {}", a->name, index, a->device);
  }
  const auto& all() const { return all_; }

 private:
  std::map<char*, Allocation> all_;
};

// A kernel that was queued.
struct Grid {
  Grid(std::string name, const QueuedLaunch& launch) : name(std::move(name)), launch(launch) {}
  ~Grid() { launch.destroy(launch.context); }
  Grid(const Grid&) = delete;
  int64_t unplaced() const { return job.clusters() - job.next; }  // clusters

  std::string name;
  QueuedLaunch launch;
  Job job;
  PeerMemory::Grid grid = {};
};

// One thread waits until the other says so. std::binary_semaphore calls sched_yield at first, which
// takes milliseconds where other programs run.
class Baton {
 public:
  void release() {
    const std::lock_guard lock(mutex_);
    here_ = true;
    changed_.notify_one();
  }
  void acquire() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return here_; });
    here_ = false;
  }
  bool acquire_within(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return here_; }) && std::exchange(here_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool here_ = false;
};

// An OS thread that runs clusters, one after the other, of one grid. It runs only between a call of
// go_on and its return.
class Worker final : public Outside {
 public:
  Worker(const Memory& memory, const std::vector<Worker*>& all)
      : memory_(memory), all_(all), thread_([this] { serve(); }) {}
  ~Worker() override {
    grid_ = nullptr;
    go_.release();
  }

  void start(Grid& grid, Places places) {
    grid_ = &grid;
    places_ = std::move(places);
    parked_ = abandoned_ = done_ = false;
  }
  // Until its cluster needs something from outside, or all clusters have run.
  void go_on() {
    go_.release();
    do {
      if (!abandoned_ && asked_to_stop()) grid_->job.stopped = true;
    } while (!back_.acquire_within(BETWEEN_QUESTIONS));
  }
  // Unwinds its threads.
  void abandon() {
    abandoned_ = true;
    while (!done_) go_on();
  }
  // Takes the places of the grid that it ran; it may be started again.
  Places leave() {
    grid_ = nullptr;
    return std::move(places_);
  }

  const Grid* grid() const { return grid_; }
  bool done() const { return done_; }
  bool can_go_on() const { return !parked_ || cluster_->signalled(); }
  const Cluster& cluster() const { return *cluster_; }

  void park(const Cluster&) override {
    parked_ = true;
    yield();
    parked_ = false;
  }
  void yield() override {
    back_.release();
    go_.acquire();
    if (abandoned_) throw Error("abandoned");
  }
  bool others_can_go_on() const override {
    return std::ranges::any_of(
        all_, [](const Worker* w) { return w->parked_ && w->cluster_->signalled(); });
  }
  std::string name_of(const void* flag) const override { return memory_.name_of_flag(flag); }

 private:
  void serve() {
    Cluster cluster;
    cluster_ = &cluster;
    for (;;) {
      go_.acquire();
      if (grid_ == nullptr) return;
      if (!abandoned_) work(grid_->job, cluster, this);
      done_ = true;
      back_.release();
    }
  }

  const Memory& memory_;
  const std::vector<Worker*>& all_;  // that have a grid
  Baton go_, back_;
  Grid* grid_ = nullptr;  // null: idle, or to end
  Cluster* cluster_ = nullptr;
  Places places_;
  bool parked_ = false, abandoned_ = false, done_ = false;
  std::jthread thread_;  // last: it begins when the rest is there
};

enum class Kind { kernel, copy, write_value, wait_value, call, record, wait, workspace };

const char* name(Kind kind) {
  switch (kind) {
    case Kind::kernel:
      return "kernel";
    case Kind::copy:
      return "copy";
    case Kind::write_value:
      return "write_value";
    case Kind::wait_value:
      return "wait_value";
    case Kind::call:
      return "call";
    case Kind::record:
      return "record";
    case Kind::wait:
      return "wait";
    case Kind::workspace:
      return "workspace";
  }
  return "?";
}

struct Operation {
  Kind kind;
  std::string name;                // "copy 3", "kernel gemm"
  std::source_location where;      // of the host; unknown of kernels
  std::function<void()> run;       // of all but kernels and waits
  int event = -1;                  // waited for
  const uint32_t* flag = nullptr;  // waited for, until it is `at_least`
  uint32_t at_least = 0;
  std::unique_ptr<Grid> grid = nullptr;
};

// Whether a flag has come to a value; counters wrap around.
bool has_come(const uint32_t* flag, uint32_t at_least) {
  return static_cast<int32_t>(*flag - at_least) >= 0;
}

struct Stream {
  Devices::State* owner;
  int index, device;
  std::string name;
  std::deque<Operation> queue = {};
  bool running = false;  // the kernel at its front
  int counts[8] = {};    // operations of each kind so far

  std::string full_name() const { return fmt::format("stream '{}' of device {}", name, device); }
  std::string name_of(const Operation& op) const {
    return fmt::format("{} of {}{}", op.name, full_name(),
                       op.kind == Kind::kernel ? "" : fmt::format(" ({})", place(op.where)));
  }
};

// All streams of all Devices, so that a launch can tell them from other pointers.
std::mutex streams_mutex;
std::set<const void*> all_streams;
[[maybe_unused]] const int at_fork = pthread_atfork(
    [] { streams_mutex.lock(); }, [] { streams_mutex.unlock(); }, [] { streams_mutex.unlock(); });

struct EventState {
  bool happened = false;
  Stream* stream;
  std::source_location where;
  PeerMemory::Clock knows = {};
};

}  // namespace

struct Devices::State {
  std::vector<Device> devices;
  std::deque<Stream> streams;
  std::vector<EventState> events;
  Memory memory;
  std::unique_ptr<PeerMemory> peers;  // while traced: who has written and read it
  const TraceSession* traced_by = nullptr;
  std::vector<Span> set;        // by the host, before
  std::vector<void*> released;  // while something was queued
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Worker*> busy;  // in the order in which they started
  bool active = false;        // synchronize() runs
  LaunchSettings settings = {};

  ~State();
  Stream& at(void* stream);
  void queue(Stream& s, Kind kind, std::source_location where, std::function<void()> run);
  bool idle() const;

  void run();
  bool eager() const { return settings.schedule == AsyncSchedule::eager_copies; }
  bool run_worker();
  bool add_worker();
  bool start(Grid& grid, int device);
  void stop(Worker& worker);
  bool run_front(bool copies);
  bool begin_kernel(Stream& s);
  void begin_traced(const Stream& s, const Operation& op);
  void begin_trace();
  void end_kernel(const Grid& grid);
  void abandon();
  void free_released();
  std::string deadlock() const;
  std::string why_stands(const Stream& s) const;
};

Devices::State::~State() {
  abandon();
  for (Stream& s : streams) {
    const std::lock_guard lock(streams_mutex);
    all_streams.erase(&s);
  }
  while (!memory.all().empty()) memory.remove(memory.all().begin()->first);
}

// Begins the trace of one synchronize().
void Devices::State::begin_trace() {
  TraceSession& session = *settings.session;
  session.in_order = true;
  if (peers == nullptr || traced_by != &session) {
    peers = std::make_unique<PeerMemory>(session.findings);
    traced_by = &session;
    for (const Matrix& m : session.options.matrices) {
      const auto* const end = static_cast<const char*>(m.allocation) + m.allocation_bytes;
      peers->add(m.first, end - static_cast<const char*>(m.first), m.name);
    }
  }
  for (const auto& [first, a] : memory.all()) {
    const std::string name = fmt::format("{} of device {}", a.name, a.device);
    session.add_memory(name, a.begin(), a.size(), first, a.bytes);
    if (!peers->holds(first)) peers->add(first, a.bytes, name);
  }
  for (const Span& span : set) peers->set_written(span.first, span.bytes);
  set.clear();
  for (EventState& e : events) e.knows.clear();
  peers->begin_run(static_cast<int>(streams.size()));
}

Stream& Devices::State::at(void* stream) {
  for (Stream& s : streams)
    if (&s == stream) return s;
  fail("{} is no stream of these devices", stream);
}

void Devices::State::queue(Stream& s, Kind kind, std::source_location where,
                           std::function<void()> run) {
  const int number = ++s.counts[static_cast<int>(kind)];
  s.queue.push_back({kind, fmt::format("{} {}", name(kind), number), where, std::move(run)});
}

bool Devices::State::idle() const {
  return std::ranges::all_of(streams, [](const Stream& s) { return s.queue.empty(); });
}

// -------------------------------------------------------------------------------- who runs next

void Devices::State::run() {
  const auto step = [&] {
    if (eager()) return run_front(true) || run_front(false) || run_worker() || add_worker();
    return run_worker() || add_worker() || run_front(false) || run_front(true);
  };
  while (step()) {
  }
  if (!idle()) throw Error("deadlock: " + deadlock());
}

// The first one that can go on; with early copies the last one. So each schedule has another order.
bool Devices::State::run_worker() {
  const auto can = [](const Worker* w) { return w->can_go_on(); };
  if (eager()) std::ranges::reverse(busy);
  const auto it = std::ranges::find_if(busy, can);
  Worker* const worker = it == busy.end() ? nullptr : *it;
  if (worker != nullptr) {  // the others first, at the next choice
    busy.erase(it);
    busy.push_back(worker);
  }
  if (eager()) std::ranges::reverse(busy);
  if (worker == nullptr) return false;
  const Grid& grid = *worker->grid();
  worker->go_on();
  if (!worker->done()) return true;
  std::erase(busy, worker);
  stop(*worker);
  if (grid.job.failed_block != NO_BLOCK) throw Error(grid.job.failure);
  if (std::ranges::none_of(busy, [&](const Worker* w) { return w->grid() == &grid; }))
    end_kernel(grid);
  return true;
}

// The worker has done its part, and its SMs are free.
void Devices::State::stop(Worker& worker) {
  const Job& job = worker.grid()->job;
  devices[job.traced.device].give(job.config, worker.leave());
}

// One more cluster beside those of a grid that all wait.
bool Devices::State::add_worker() {
  for (Stream& s : streams)
    if (s.running && s.queue.front().grid->unplaced() > 0 && start(*s.queue.front().grid, s.device))
      return true;
  return false;
}

// Whether there was room for a cluster.
bool Devices::State::start(Grid& grid, int device) {
  Places places = devices[device].take(grid.job.config);
  if (places.empty()) return false;
  auto it = std::ranges::find_if(workers, [](const auto& w) { return w->grid() == nullptr; });
  if (it == workers.end())
    it = workers.insert(workers.end(), std::make_unique<Worker>(memory, busy));
  (*it)->start(grid, std::move(places));
  busy.push_back(it->get());
  return true;
}

// The first operation at the front of a stream that can begin, of copies or of all others.
bool Devices::State::run_front(bool copies) {
  for (Stream& s : streams) {
    if (s.queue.empty() || s.running || (s.queue.front().kind == Kind::copy) != copies) continue;
    if (s.queue.front().kind == Kind::kernel) {
      if (begin_kernel(s)) return true;
      continue;
    }
    const Operation& front = s.queue.front();
    if (front.kind == Kind::wait && !events[front.event].happened) continue;
    if (front.kind == Kind::wait_value && !has_come(front.flag, front.at_least)) continue;
    const Operation op = std::move(s.queue.front());
    s.queue.pop_front();
    if (peers != nullptr) begin_traced(s, op);
    if (op.run) op.run();
    if (peers != nullptr && op.kind == Kind::call) peers->look_for_written();
    return true;
  }
  return false;
}

void Devices::State::begin_traced(const Stream& s, const Operation& op) {
  peers->begin_operation(s.index, fmt::format("{} of {}", op.name, s.full_name()));
  if (op.kind == Kind::wait) peers->wait(s.index, events[op.event].knows);
  if (op.kind == Kind::wait_value)
    peers->wait_value(s.index, op.flag, op.at_least, pc_of(op.where));
}

bool Devices::State::begin_kernel(Stream& s) {
  Grid& grid = *s.queue.front().grid;
  // A GPU places all blocks of one grid before the first of the next.
  for (const Stream& other : streams)
    if (other.running && other.device == s.device && other.queue.front().grid->unplaced() > 0)
      return false;
  if (!start(grid, s.device)) return false;
  grid.job.schedule = settings.schedule;
  grid.job.session = settings.session;
  if (peers != nullptr) {
    begin_traced(s, s.queue.front());
    grid.grid = peers->begin_grid(s.index, s.device);
    grid.job.traced.memory = peers.get();
    grid.job.traced.grid = &grid.grid;
  }
  begin(grid.job);
  s.running = true;
  return true;
}

void Devices::State::end_kernel(const Grid& grid) {
  for (Stream& s : streams)
    if (s.running && s.queue.front().grid.get() == &grid) {
      const Operation op = std::move(s.queue.front());
      s.queue.pop_front();
      s.running = false;
      if (peers != nullptr) peers->end_grid(op.grid->grid);
      finish(op.grid->job);
      return;
    }
}

// Drops all that has not run; the workers are idle then.
void Devices::State::abandon() {
  for (Worker* const w : busy) {
    w->abandon();
    stop(*w);
  }
  busy.clear();
  for (Stream& s : streams) {
    s.running = false;
    for (Operation& op : s.queue)
      if (op.kind == Kind::workspace) op.run();
    s.queue.clear();
  }
  free_released();
}

void Devices::State::free_released() {
  TraceSession* const session = launch_settings().session;  // of now: that of before may have ended
  for (void* const p : released) {
    if (session != nullptr) session->remove_workspace(p);
    if (peers != nullptr) peers->remove(p);
    memory.remove(p);
  }
  released.clear();
}

// ------------------------------------------------------------------------------------- deadlocks

// What is at the stream's front, and what waits behind it.
std::string Devices::State::why_stands(const Stream& s) const {
  const Operation& front = s.queue.front();
  std::string text;
  if (s.running) {
    if (s.queue.size() == 1) return "";
    const Operation& next = s.queue[1];
    text = fmt::format("{} waits behind {}", s.name_of(next), front.name);
  } else if (front.kind == Kind::wait) {
    const EventState& e = events[front.event];
    text = fmt::format("{} waits for the event recorded in {} ({})", s.name_of(front),
                       e.stream->full_name(), place(e.where));
  } else if (front.kind == Kind::wait_value) {
    text = fmt::format("{} waits for {} to be at least {}, which is {}", s.name_of(front),
                       memory.name_of_flag(front.flag), front.at_least, *front.flag);
  } else {
    text =
        fmt::format("{} finds no room on the {} SMs of device {}", s.name_of(front), SMS, s.device);
  }
  const size_t more = s.queue.size() - (s.running ? 2 : 1);
  return more == 0 ? text : fmt::format("{}, and {} more behind it", text, more);
}

std::string Devices::State::deadlock() const {
  std::string all;
  const auto tell = [&](const std::string& text) {
    if (!text.empty()) all += (all.empty() ? "" : "; ") + text;
  };
  for (const Stream& s : streams) {
    if (!s.running) continue;
    std::map<std::string, std::vector<int64_t>> told;  // who waits -> blocks
    std::vector<std::string> order;
    for (const Worker* const w : busy) {
      if (w->grid() != s.queue.front().grid.get()) continue;
      const auto [text, block] = w->cluster().who_waits();
      if (told[text].empty()) order.push_back(text);
      told[text].push_back(block);
    }
    if (const int64_t left = s.queue.front().grid->unplaced(); left > 0)
      tell(fmt::format("{} more cluster{} of {} find no room on device {}", left,
                       left == 1 ? "" : "s", s.queue.front().name, s.device));
    for (const std::string& text : order) {
      std::vector<int64_t>& blocks = told[text];
      std::ranges::sort(blocks);
      tell(fmt::format("device {}, {}, block{} {}: {}", s.device, s.queue.front().name,
                       blocks.size() == 1 ? "" : "s", fmt::join(blocks, ", "), text));
    }
  }
  for (const Stream& s : streams)
    if (!s.queue.empty()) tell(why_stands(s));
  return all;
}

// --------------------------------------------------------------------------------- what is called

Devices::Devices(int count) : state_(std::make_unique<State>()) {
  if (count < 1 || count > MOST) fail("{} devices; allowed: 1 to {}", count, MOST);
  state_->devices.resize(count);
}

Devices::~Devices() = default;

int Devices::count() const { return static_cast<int>(state_->devices.size()); }

namespace {

void check_device(const Devices& devices, int device) {
  if (device < 0 || device >= devices.count())
    fail("device {}; allowed: 0 to {}", device, devices.count() - 1);
}

}  // namespace

void* Devices::stream(int device, std::string name) {
  check_device(*this, device);
  if (state_->active) fail("a new stream while work runs");
  Stream& s = state_->streams.emplace_back(state_.get(), static_cast<int>(state_->streams.size()),
                                           device, std::move(name));
  const std::lock_guard lock(streams_mutex);
  all_streams.insert(&s);
  return &s;
}

void* Devices::allocate(int device, size_t bytes, std::string name) {
  check_device(*this, device);
  return state_->memory.add(device, bytes, std::move(name));
}

void Devices::release(void* p) {
  if (p == nullptr) return;
  state_->released.push_back(p);
  if (state_->idle() && !state_->active) state_->free_released();
}

void Devices::set_bytes(void* p, int value, size_t bytes) {
  if (!state_->idle() || state_->active) fail("set_bytes while work is queued");
  const Allocation* const a = state_->memory.find(p);
  if (a == nullptr || a->bytes - (static_cast<char*>(p) - a->first) < bytes)
    fail("set_bytes: {} bytes at {} are in no allocation", bytes, p);
  std::memset(p, value, bytes);
  state_->set.push_back({p, bytes});
}

namespace {

// Throws when rows that begin in an allocation leave it.
void check_range(const Memory& memory, const char* verb, const void* p, int64_t pitch,
                 const Copy& c, std::source_location where) {
  const Allocation* const a = memory.find(p);
  if (a == nullptr) return;
  const int64_t end = static_cast<const char*>(p) - a->first + (c.rows - 1) * pitch + c.width;
  if (end > static_cast<int64_t>(a->bytes))
    fail("copy ({}): {} {} bytes past the end of {} of device {}", place(where), verb,
         end - static_cast<int64_t>(a->bytes), a->name, a->device);
}

}  // namespace

void Devices::copy(void* stream, const Copy& c, Where where) {
  Stream& s = state_->at(stream);
  if (c.width < 0 || c.rows < 0 || (c.rows > 1 && (c.to_pitch < c.width || c.from_pitch < c.width)))
    fail("copy ({}): {} rows of {} bytes, {} and {} bytes apart", place(where), c.rows, c.width,
         c.to_pitch, c.from_pitch);
  if (c.width == 0 || c.rows == 0) return;
  check_range(state_->memory, "writes", c.to, c.to_pitch, c, where);
  check_range(state_->memory, "reads", c.from, c.from_pitch, c, where);
  state_->queue(s, Kind::copy, where, [c, where, &s] {
    for (int64_t r = 0; r < c.rows; ++r) {
      char* const to = static_cast<char*>(c.to) + r * c.to_pitch;
      const char* const from = static_cast<const char*>(c.from) + r * c.from_pitch;
      if (s.owner->peers != nullptr) s.owner->peers->copy(s.index, to, from, c.width, pc_of(where));
      std::memcpy(to, from, c.width);
    }
  });
}

void Devices::write_value(void* stream, uint32_t* flag, uint32_t value, Where where) {
  Stream& s = state_->at(stream);
  if (state_->memory.find(flag) == nullptr || reinterpret_cast<uintptr_t>(flag) % 4 != 0)
    fail("write_value ({}): {} is no flag in memory of these devices", place(where),
         static_cast<const void*>(flag));
  state_->queue(s, Kind::write_value, where, [flag, value, &s] {
    *flag = value;
    if (s.owner->peers != nullptr) s.owner->peers->write_value(s.index, flag, value);
  });
}

void Devices::wait_value(void* stream, const uint32_t* flag, uint32_t at_least, Where where) {
  Stream& s = state_->at(stream);
  if (state_->memory.find(flag) == nullptr || reinterpret_cast<uintptr_t>(flag) % 4 != 0)
    fail("wait_value ({}): {} is no flag in memory of these devices", place(where),
         static_cast<const void*>(flag));
  state_->queue(s, Kind::wait_value, where, {});
  s.queue.back().flag = flag;
  s.queue.back().at_least = at_least;
}

void Devices::call(void* stream, std::function<void()> work, Where where) {
  call(stream, std::move(work), {}, {}, where);
}

void Devices::call(void* stream, std::function<void()> work, std::vector<Span> reads,
                   std::vector<Span> writes, Where where) {
  Stream& s = state_->at(stream);
  state_->queue(
      s, Kind::call, where,
      [&s, where, work = std::move(work), reads = std::move(reads), writes = std::move(writes)] {
        const auto touch = [&](const std::vector<Span>& spans, AccessKind kind) {
          for (const Span& span : spans)
            s.owner->peers->access(s.index, span.first, span.bytes, kind, pc_of(where));
        };
        if (s.owner->peers != nullptr) touch(reads, AccessKind::read);
        work();
        if (s.owner->peers != nullptr) touch(writes, AccessKind::write);
      });
}

Event Devices::record(void* stream, Where where) {
  Stream& s = state_->at(stream);
  const size_t index = state_->events.size();
  state_->events.push_back({false, &s, where});
  state_->queue(s, Kind::record, where, [state = state_.get(), index] {
    EventState& e = state->events[index];
    e.happened = true;
    if (state->peers != nullptr) e.knows = state->peers->record(e.stream->index);
  });
  return {static_cast<int>(index)};
}

void Devices::wait(void* stream, Event event, Where where) {
  Stream& s = state_->at(stream);
  if (event.index < 0 || event.index >= static_cast<int>(state_->events.size()))
    fail("wait ({}): there is no event {}", place(where), event.index);
  state_->queue(s, Kind::wait, where, {});
  s.queue.back().event = event.index;
}

void Devices::synchronize() {
  State& s = *state_;
  if (s.active || this_thread.block != nullptr) fail("synchronize called from queued work");
  s.active = true;
  s.settings = launch_settings();
  if (s.settings.session != nullptr)
    s.begin_trace();
  else
    s.peers.reset();
  try {
    s.run();
  } catch (...) {
    s.abandon();
    s.active = false;
    throw;
  }
  s.active = false;
  s.free_released();
}

// ------------------------------------------------------------------------- what launches call

bool runtime::is_queued(const void* stream) {
  if (stream == nullptr) return false;
  const std::lock_guard lock(streams_mutex);
  return all_streams.contains(stream);
}

void runtime::launch_on(void* stream, const QueuedLaunch& launch) {
  auto& s = *static_cast<Stream*>(stream);
  auto grid = std::make_unique<Grid>(function_name(launch.kernel), launch);
  check_launch(launch.config);
  Job& job = grid->job;
  job.body = launch.body;
  job.context = launch.context;
  job.config = launch.config;
  job.traced = {.device = s.device,
                .arguments = reinterpret_cast<uintptr_t>(launch.context),
                .argument_bytes = launch.context_bytes};
  Device empty;
  if (empty.take(launch.config).empty())
    fail(
        "launch: a cluster of {} blocks of {} threads and {} bytes of shared memory is more than "
        "{} SMs have",
        launch.config.cluster,
        launch.config.block.x * launch.config.block.y * launch.config.block.z, launch.config.smem,
        SMS);
  s.owner->queue(s, Kind::kernel, {}, {});
  s.queue.back().name = fmt::format("kernel {}", grid->name);
  s.queue.back().grid = std::move(grid);
}

void runtime::queue_call(void* stream, std::function<void()> work) {
  auto& s = *static_cast<Stream*>(stream);
  s.owner->queue(s, Kind::call, {}, std::move(work));
}

void runtime::queue_workspace(void* stream, void (*f)(void*), void* p) {
  auto& s = *static_cast<Stream*>(stream);
  s.owner->queue(s, Kind::workspace, {}, [f, p] { f(p); });
}

}  // namespace gemm::sim
