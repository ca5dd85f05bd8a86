// Several devices of one host that reach each other's memory: what a sharded rung is launched on.
// Two implementations: GPUs with peer access, and the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "dtypes.h"
#include "registry.h"

namespace gemm {

// A rank is one device. Each has two streams: `compute`, for kernels, and `copies`, whose copies
// run on a copy engine while kernels have all SMs. All calls but synchronize() queue work and return.
// They throw std::runtime_error where CUDA or NCCL refuses, std::bad_alloc without memory.
class Fabric {
 public:
  // A point in a stream that others can wait for.
  struct Event {
    int index = -1;
  };
  // `rows` rows of `width` bytes; pitches in bytes from row to row.
  struct Region {
    void* to;
    int64_t to_pitch;
    const void* from;
    int64_t from_pitch;
    int64_t width, rows;
  };

  using Where = std::source_location;  // of the caller, for the simulator's diagnoses

  virtual ~Fabric() = default;
  virtual Backend backend() const = 0;
  virtual int ranks() const = 0;
  // The ranks whose streams this process fills: all, or one where each has a process of its own.
  // All that follows is for these alone, but for symmetric memory, which has an address of each
  // rank's.
  virtual const std::vector<int>& here() const = 0;
  virtual int device(int rank) const = 0;  // CUDA's number of the GPU; 0 in the simulator
  virtual void* compute(int rank) = 0;
  virtual void* copies(int rank) = 0;

  // Memory of one device, 256-byte aligned, that kernels and copies of all devices reach. `name` is
  // for diagnoses.
  enum class Contents { undefined, zeros };
  virtual void* allocate(int rank, size_t bytes, const std::string& name, Contents contents) = 0;
  virtual void release(int rank, void* p) noexcept = 0;
  // As many bytes of every rank: addresses by rank. All processes call it, in the same order.
  virtual std::vector<void*> allocate_symmetric(size_t bytes, const std::string& name,
                                                Contents contents);
  virtual void release_symmetric(const std::vector<void*>& all) noexcept;
  // Throws the first failure of release().
  virtual void check_released() {}

  // By a copy engine, from any device's memory to any other's.
  virtual void copy(void* stream, const Region& region, Where where = Where::current()) = 0;
  // Writes a flag in any rank's memory, when all before it in the stream is done and visible. No
  // kernel does it (a memset is one): a kernel could queue up behind one that waits for the flag.
  virtual void write_flag(void* stream, uint32_t* flag, uint32_t value,
                          Where where = Where::current()) = 0;
  // What comes next in the stream waits for a flag in the memory of the stream's device. No kernel
  // waits. Counters may wrap around.
  virtual void wait_flag(void* stream, uint32_t* flag, uint32_t at_least,
                         Where where = Where::current()) = 0;
  // Both at once: writes `value` to all of the first, and waits for it in all of the second.
  virtual void exchange_flags(void* stream, const std::vector<uint32_t*>& to,
                              const std::vector<uint32_t*>& from, uint32_t value,
                              Where where = Where::current());
  virtual Event record(void* stream, Where where = Where::current()) = 0;
  virtual void wait(void* stream, Event event, Where where = Where::current()) = 0;

  // A caller's stream of the rank's device; null is its default stream. The simulator has none.
  // What comes next in the rank's compute stream runs after what is now in the caller's,
  virtual void begin_after(int rank, void* callers_stream) = 0;
  // and what comes next in the caller's runs after what is now in the rank's compute stream.
  virtual void end_before(int rank, void* callers_stream) = 0;

  // Queues, in each rank's compute stream, a wait for all that is now in every rank's compute
  // stream. Where each rank has a process, it is what every other one has queued when it joins as
  // often.
  virtual void join_ranks(Where where = Where::current());

  // Where each rank has a process: why another one's part will not come; empty: nothing is known of
  // that. And: tells the others that this one's will not.
  virtual std::string lost() { return {}; }
  virtual void fail(const std::string&) noexcept {}

  // Marks what is now in all streams, in place of what was marked before.
  virtual void mark() = 0;
  // Waits for what was marked, and not for what was queued later. Throws as synchronize() does. Other
  // fabrics may be used meanwhile. The simulator does not wait: at its end it drops what no
  // synchronize() has run.
  virtual void wait_for_mark() = 0;

  // NCCL's collectives, on the compute streams. Rank r's part of all_gather is `bytes` bytes at
  // from[r]; all parts, in order of ranks, go to to[r]. reduce_scatter adds the ranks' from[r], of
  // ranks() * count elements, and rank r keeps the r-th `count` of the sum at to[r]. all_reduce adds
  // the ranks' from[r], of `count` elements, and every rank gets the sum at to[r].
  virtual void all_gather(const std::vector<const void*>& from, const std::vector<void*>& to,
                          size_t bytes) = 0;
  virtual void reduce_scatter(const std::vector<const void*>& from, const std::vector<void*>& to,
                              size_t count, Element element) = 0;
  virtual void all_reduce(const std::vector<const void*>& from, const std::vector<void*>& to,
                          size_t count, Element element) = 0;
  // Why there are no collectives; empty: there are.
  virtual std::string without_collectives() const { return {}; }

  // Waits for all streams of all ranks. Throws LaunchError (the simulator's diagnosis) or
  // DeviceFault: a kernel broke its device, or what was queued has not ended within the time limit.
  virtual void synchronize() = 0;
  // Milliseconds between two events of one rank's streams that have come. The simulator has no
  // time.
  virtual double milliseconds(Event from, Event to) = 0;
};

// Memory of a Fabric that frees itself.
class SharedMemory {
 public:
  SharedMemory(Fabric& fabric, int rank, size_t bytes, const std::string& name,
               Fabric::Contents contents = Fabric::Contents::undefined)
      : fabric_(&fabric), rank_(rank), p_(fabric.allocate(rank, bytes, name, contents)) {}
  ~SharedMemory() {
    if (p_ != nullptr) fabric_->release(rank_, p_);
  }
  SharedMemory(SharedMemory&& other) noexcept
      : fabric_(other.fabric_), rank_(other.rank_), p_(other.p_) {
    other.p_ = nullptr;
  }
  SharedMemory& operator=(SharedMemory&&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(p_);
  }

 private:
  Fabric* fabric_;
  int rank_;
  void* p_;
};

// Memory that every rank of a Fabric has alike.
class SymmetricMemory {
 public:
  SymmetricMemory(Fabric& fabric, size_t bytes, const std::string& name,
                  Fabric::Contents contents = Fabric::Contents::undefined)
      : fabric_(fabric), of_(fabric.allocate_symmetric(bytes, name, contents)) {}
  ~SymmetricMemory() { fabric_.release_symmetric(of_); }
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  template <class T>
  T* of(int rank) const {
    return static_cast<T*>(of_[rank]);
  }

 private:
  Fabric& fabric_;
  const std::vector<void*> of_;
};

class RankGroup;

// join_ranks() of a fabric with one rank here, in a stream of it. `joined`: of each rank, a flag
// for every other one; `number`: how often it has joined, with this one.
void join_by_flags(Fabric& fabric, void* stream, const std::vector<void*>& joined, uint32_t number,
                   Fabric::Where where);

std::unique_ptr<Fabric> make_sim_fabric(int ranks);
// One rank of them; the others are threads of this process. Throws RankFailure.
std::unique_ptr<Fabric> make_sim_rank(std::shared_ptr<RankGroup> group);
// GPUs by CUDA's numbers, all different, by rank. Null where there are none (or no CUDA in this
// build); `why` then says so in a few words: too few GPUs, no peer access between two of them.
//
// All such fabrics of a process share each GPU's two streams. Kernels that wait for each other on
// two GPUs must all run at once: those of two products, each on one GPU, would wait for ever. So
// products are queued in the same order on all GPUs: by one thread at a time.
std::unique_ptr<Fabric> make_gpu_fabric(const std::vector<int>& devices, std::string& why);
// One rank, on a GPU of this process; the others are processes of this host. They reach each
// other's symmetric memory by CUDA's handles for that (IPC), and join by flags. Throws RankFailure.
std::unique_ptr<Fabric> make_gpu_rank(int device, std::shared_ptr<RankGroup> group);

}  // namespace gemm
