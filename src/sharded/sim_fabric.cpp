// Several simulated devices as a Fabric: sim/devices.h, and collectives by its copies and the host.
#include <stdexcept>

#include "device/platform.h"
#include "device_errors.h"
#include "sharded/fabric.h"
#include "sim/devices.h"
#include "sim/simulator.h"

namespace gemm {
namespace {

class SimFabric final : public Fabric {
 public:
  explicit SimFabric(int ranks) : devices_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      compute_.push_back(devices_.stream(rank, "compute"));
      copies_.push_back(devices_.stream(rank, "copies"));
    }
  }

  Backend backend() const override { return Backend::sim; }
  int ranks() const override { return devices_.count(); }
  int device(int) const override { return 0; }
  void* compute(int rank) override { return compute_[rank]; }
  void* copies(int rank) override { return copies_[rank]; }

  void* allocate(int rank, size_t bytes, const std::string& name, Contents contents) override {
    void* const p = devices_.allocate(rank, bytes, name);  // all NaN
    if (contents == Contents::zeros) devices_.set_bytes(p, 0, bytes);
    return p;
  }
  void release(int, void* p) noexcept override { devices_.release(p); }

  void copy(void* stream, const Region& r, Where where) override {
    devices_.copy(stream, {r.to, r.to_pitch, r.from, r.from_pitch, r.width, r.rows}, where);
  }
  void write_flag(void* stream, uint32_t* flag, uint32_t value, Where where) override {
    devices_.write_value(stream, flag, value, where);
  }
  Event record(void* stream, Where where) override {
    return {devices_.record(stream, where).index};
  }
  void wait(void* stream, Event event, Where where) override {
    devices_.wait(stream, {event.index}, where);
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
    join_ranks(*this);
    for (int rank = 0; rank < ranks(); ++rank)
      for (int other = 0; other < ranks(); ++other) {
        char* const part = static_cast<char*>(to[rank]) + other * size;
        if (part != from[other])
          devices_.copy(compute(rank), {part, size, from[other], size, size, 1});
      }
    join_ranks(*this);
  }

  void reduce_scatter(const std::vector<const void*>& from, const std::vector<void*>& to,
                      size_t count, Element element) override {
    if (element != Element::f16 && element != Element::bf16)
      throw std::logic_error("reduce_scatter adds f16 and bf16");
    join_ranks(*this);
    const size_t bytes = count * info(element).bytes;
    for (int rank = 0; rank < ranks(); ++rank) {
      std::vector<sim::Span> reads;
      for (const void* part : from)
        reads.push_back({static_cast<const char*>(part) + rank * bytes, bytes});
      const auto work = [from, out = to[rank], count, element, rank] {
        element == Element::f16 ? add<half>(from, out, rank * count, count)
                                : add<bf16>(from, out, rank * count, count);
      };
      devices_.call(compute(rank), work, reads, {{to[rank], bytes}});
    }
    join_ranks(*this);
  }

  void synchronize() override {
    try {
      devices_.synchronize();
    } catch (const sim::Error& e) {
      throw LaunchError(e.what());
    }
  }
  double milliseconds(Event, Event) override { return 0; }

 private:
  // Adds elements `first` to before `first + count` of all, in float, rank by rank.
  template <class T>
  static void add(const std::vector<const void*>& from, void* to, size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (const void* part : from) sum += float(static_cast<const T*>(part)[first + i]);
      static_cast<T*>(to)[i] = T(sum);
    }
  }

  sim::Devices devices_;
  std::vector<void*> compute_, copies_;
};

}  // namespace

std::unique_ptr<Fabric> make_sim_fabric(int ranks) { return std::make_unique<SimFabric>(ranks); }

}  // namespace gemm
