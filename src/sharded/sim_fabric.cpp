// Several simulated devices as a Fabric: sim/devices.h, and collectives by its copies and the host.
#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>

#include "device/platform.h"
#include "device_errors.h"
#include "sharded/fabric.h"
#include "sharded/rank_group.h"
#include "sim/devices.h"
#include "sim/simulator.h"

namespace gemm {
namespace {

// The devices and their streams. Where each rank has a thread, all of these share one, and queue
// under its lock; launches go to their own streams alone.
struct World {
  explicit World(int ranks) : devices(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      compute.push_back(devices.stream(rank, "compute"));
      copies.push_back(devices.stream(rank, "copies"));
    }
  }
  sim::Devices devices;
  std::vector<void*> compute, copies;
  std::mutex mutex;
  // Ranks that wait for what is queued to be run, which the last one does.
  std::condition_variable all_came;
  int waiting = 0;
  uint64_t runs = 0;
  std::exception_ptr failure;  // no further run
};

// Worlds that threads make together: they tell each other an address.
std::mutex worlds_mutex;
std::map<const World*, std::weak_ptr<World>> worlds;
[[maybe_unused]] const int at_fork = pthread_atfork(
    [] { worlds_mutex.lock(); }, [] { worlds_mutex.unlock(); }, [] { worlds_mutex.unlock(); });

std::shared_ptr<World> world_of(RankGroup& group) {
  struct Address {
    int64_t process;
    World* world;
  };
  std::shared_ptr<World> world;
  const auto told = group.gather([&] {
    if (group.rank() == 0) {
      world = std::make_shared<World>(group.ranks());
      const std::lock_guard lock(worlds_mutex);
      std::erase_if(worlds, [](const auto& known) { return known.second.expired(); });
      worlds[world.get()] = world;
    }
    return Address{getpid(), world.get()};
  });
  group.gather([&] {
    if (told[0].process != getpid())
      throw std::runtime_error(
          "simulated ranks are threads of one process, and rank 0 is process " +
          std::to_string(told[0].process));
    const std::lock_guard lock(worlds_mutex);
    world = worlds.at(told[0].world).lock();
    return 0;
  });
  return world;
}

class SimFabric final : public Fabric {
 public:
  explicit SimFabric(int ranks)
      : world_(std::make_shared<World>(ranks)), devices_(world_->devices) {
    for (int rank = 0; rank < ranks; ++rank) here_.push_back(rank);
  }
  explicit SimFabric(std::shared_ptr<RankGroup> group)
      : world_(world_of(*group)),
        devices_(world_->devices),
        here_{group->rank()},
        group_(std::move(group)),
        joined_(allocate_symmetric(ranks() * sizeof(uint32_t), "joined", Contents::zeros)) {}
  ~SimFabric() override {
    if (group_ != nullptr) release_symmetric(joined_);
  }

  Backend backend() const override { return Backend::sim; }
  int ranks() const override { return devices_.count(); }
  const std::vector<int>& here() const override { return here_; }
  int device(int) const override { return 0; }
  void* compute(int rank) override { return world_->compute[rank]; }
  void* copies(int rank) override { return world_->copies[rank]; }

  void* allocate(int rank, size_t bytes, const std::string& name, Contents contents) override {
    const std::lock_guard lock(world_->mutex);
    void* const p = devices_.allocate(rank, bytes, name);  // all NaN
    if (contents == Contents::zeros) devices_.set_bytes(p, 0, bytes);
    return p;
  }
  void release(int, void* p) noexcept override {
    const std::lock_guard lock(world_->mutex);
    devices_.release(p);
  }
  std::vector<void*> allocate_symmetric(size_t bytes, const std::string& name,
                                        Contents contents) override {
    if (group_ == nullptr) return Fabric::allocate_symmetric(bytes, name, contents);
    return group_->gather([&] { return allocate(here_[0], bytes, name, contents); });
  }
  void release_symmetric(const std::vector<void*>& all) noexcept override {
    if (group_ == nullptr) return Fabric::release_symmetric(all);
    release(here_[0], all[here_[0]]);
  }

  void copy(void* stream, const Region& r, Where where) override {
    const std::lock_guard lock(world_->mutex);
    devices_.copy(stream, {r.to, r.to_pitch, r.from, r.from_pitch, r.width, r.rows}, where);
  }
  void write_flag(void* stream, uint32_t* flag, uint32_t value, Where where) override {
    const std::lock_guard lock(world_->mutex);
    devices_.write_value(stream, flag, value, where);
  }
  void wait_flag(void* stream, uint32_t* flag, uint32_t at_least, Where where) override {
    const std::lock_guard lock(world_->mutex);
    devices_.wait_value(stream, flag, at_least, where);
  }
  Event record(void* stream, Where where) override {
    const std::lock_guard lock(world_->mutex);
    return {devices_.record(stream, where).index};
  }
  void wait(void* stream, Event event, Where where) override {
    const std::lock_guard lock(world_->mutex);
    devices_.wait(stream, {event.index}, where);
  }
  void join_ranks(Where where) override {
    group_ == nullptr ? Fabric::join_ranks(where)
                      : join_by_flags(*this, compute(here_[0]), joined_, ++joins_, where);
  }
  std::string lost() override { return group_ == nullptr ? std::string() : group_->failed(); }
  void fail(const std::string& why) noexcept override {
    if (group_ != nullptr) group_->fail(why);
  }
  void begin_after(int, void*) override {}
  void end_before(int, void*) override {}
  void mark() override {}
  void wait_for_mark() override {}

  // Each rank fetches the others' parts when all have come to this point, and goes on when all have
  // done so: as NCCL's, a collective synchronises its ranks.
  void all_gather(const std::vector<const void*>& from, const std::vector<void*>& to,
                  size_t bytes) override {
    const auto size = static_cast<int64_t>(bytes);
    Fabric::join_ranks();
    for (int rank = 0; rank < ranks(); ++rank)
      for (int other = 0; other < ranks(); ++other) {
        char* const part = static_cast<char*>(to[rank]) + other * size;
        if (part != from[other])
          devices_.copy(compute(rank), {part, size, from[other], size, size, 1});
      }
    Fabric::join_ranks();
  }

  void reduce_scatter(const std::vector<const void*>& from, const std::vector<void*>& to,
                      size_t count, Element element) override {
    add_parts(from, to, count, element, count);
  }
  void all_reduce(const std::vector<const void*>& from, const std::vector<void*>& to, size_t count,
                  Element element) override {
    add_parts(from, to, count, element, 0);
  }

  // The last rank that comes runs all.
  void synchronize() override {
    std::unique_lock lock(world_->mutex);
    if (world_->failure != nullptr) std::rethrow_exception(world_->failure);
    const uint64_t run = world_->runs;
    if (++world_->waiting == static_cast<int>(ranks() / here_.size())) {
      try {
        devices_.synchronize();
      } catch (const sim::Error& e) {
        if (group_ == nullptr) {
          world_->waiting = 0;
          throw LaunchError(e.what());
        }
        world_->failure = std::make_exception_ptr(LaunchError(e.what()));
      }
      world_->waiting = 0;
      ++world_->runs;
      world_->all_came.notify_all();
    }
    const auto end = std::chrono::steady_clock::now() + limit();
    while (world_->runs == run && world_->failure == nullptr) {
      world_->all_came.wait_for(lock, std::chrono::milliseconds(20));
      if (world_->runs != run) break;
      std::string why = group_->lost();
      if (why.empty() && std::chrono::steady_clock::now() > end)
        why = "not all ranks have come within " + std::to_string(limit().count() / 1000) + " s";
      if (why.empty() || world_->failure != nullptr) continue;
      world_->failure = std::make_exception_ptr(RankFailure(why));
      world_->all_came.notify_all();
    }
    if (world_->failure != nullptr) std::rethrow_exception(world_->failure);
  }
  double milliseconds(Event, Event) override { return 0; }

 private:
  // Each rank gets a sum of `count` elements of all parts; rank r's begin at element r * `step`.
  void add_parts(const std::vector<const void*>& from, const std::vector<void*>& to, size_t count,
                 Element element, size_t step) {
    if (element != Element::f16 && element != Element::bf16)
      throw std::logic_error("collectives add f16 and bf16");
    Fabric::join_ranks();
    const size_t size = info(element).bytes;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<sim::Span> reads;
      for (const void* part : from)
        reads.push_back({static_cast<const char*>(part) + rank * step * size, count * size});
      const auto work = [from, out = to[rank], first = rank * step, count, element] {
        element == Element::f16 ? add<half>(from, out, first, count)
                                : add<bf16>(from, out, first, count);
      };
      devices_.call(compute(rank), work, reads, {{to[rank], count * size}});
    }
    Fabric::join_ranks();
  }

  // Adds elements `first` to before `first + count` of all, in float, rank by rank.
  template <class T>
  static void add(const std::vector<const void*>& from, void* to, size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (const void* part : from) sum += float(static_cast<const T*>(part)[first + i]);
      static_cast<T*>(to)[i] = T(sum);
    }
  }

  RankGroup::Milliseconds limit() const {
    return group_ == nullptr ? RankGroup::Milliseconds(0) : group_->limit();
  }

  const std::shared_ptr<World> world_;
  sim::Devices& devices_;
  std::vector<int> here_;
  const std::shared_ptr<RankGroup> group_;  // null: all ranks are here
  const std::vector<void*> joined_;         // of each rank: (ranks) flags
  uint32_t joins_ = 0;
};

}  // namespace

std::unique_ptr<Fabric> make_sim_fabric(int ranks) { return std::make_unique<SimFabric>(ranks); }
std::unique_ptr<Fabric> make_sim_rank(std::shared_ptr<RankGroup> group) {
  return std::make_unique<SimFabric>(std::move(group));
}

}  // namespace gemm
