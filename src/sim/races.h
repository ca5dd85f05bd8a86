// The race sink: who wrote and read each byte of a block's shared memory, and whether anything
// orders them. Happens-before by vector clocks (FastTrack: Flanagan and Freund, PLDI 2009).
//
// Every thread has a clock. A block-wide barrier sets all clocks to one later value, so that
// whatever is older than the last barrier is ordered before everything, and needs no vector: that
// is the whole story of a kernel that only uses __syncthreads. Vectors come into being at the first
// finer synchronisation after a barrier: __syncwarp, or acquire and release of an object.
//
// Limit: of the readers of a byte before a block's first finer synchronisation two are remembered;
// that is enough for block-wide barriers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "sim/scheduler.h"

namespace gemm::sim {

class Races {
 public:
  using Site = uint16_t;  // the tracer's number for a program counter

  // An access that should not have been. `other`: the earlier of the two, where there is one.
  struct Report {
    enum Kind { none, race, uninitialised, pending, being_read } kind = none;
    Site site = 0, other = 0;
    int thread = 0, other_thread = 0;
    bool write = false, other_write = false;
    uint32_t at = 0;  // the byte
  };

  // Nothing of the `bytes` bytes of shared memory is written.
  void begin_block(int threads, size_t bytes);

  Report read(int thread, uint32_t at, int bytes, Site site);
  Report write(int thread, uint32_t at, int bytes, Site site);
  // Uses what another thread may have written without an order.
  Report use(int thread, uint32_t at) const;
  // A cp.async writes at some time between its issue and the wait for it.
  Report copy_issued(int thread, uint32_t at, int bytes, Site site);
  void copy_landed(int thread, uint32_t at, int bytes);

  // A TMA store of `thread` reads at some time between its issue and the wait for it: until then
  // nobody may write there, not even that thread; after it, only who comes after the wait.
  Report store_issued(int thread, uint32_t at, size_t bytes, Site site);
  Report store_has_read(int thread, uint32_t at, size_t bytes, Site site);

  // By what these checks do not follow, another block: it comes before everything that follows.
  void written_from_outside(uint32_t at, int bytes, Site site);

  void barrier();  // of all threads
  void sync_warp(int first_thread, uint32_t lanes);
  // A thread that acquires `object` comes after all that came before the releases of its completed
  // phases: an mbarrier's arrive is a release, a wait that succeeds an acquire. Not after those of
  // the phase that has begun since: the order in which threads happen to run brings some of them.
  void release(int thread, const void* object);
  void complete(const void* object);  // its phase
  void acquire(int thread, const void* object);

 private:
  // When, in the upper bits, and who. 0: never; PENDING: by a copy in flight.
  using Stamp = uint32_t;
  static constexpr int THREAD_BITS = 10;
  static constexpr Stamp PENDING = ~0u;
  static_assert(MAX_THREADS == 1 << THREAD_BITS);
  using Clock = std::vector<uint32_t>;  // by thread

  struct Reader {
    Stamp stamp;
    Site site;
  };
  struct Pending {
    int thread;
    Site site;
  };
  struct StoreRead {  // of a TMA store that nobody has waited for
    int thread;
    uint32_t at;
    size_t bytes;
    Site site;
  };

  Stamp stamp(int thread) const { return now_[thread] << THREAD_BITS | thread; }
  static int thread_of(Stamp s) { return s & (MAX_THREADS - 1); }
  // Whether what happened at `s` comes before what `thread` does now.
  bool ordered(Stamp s, int thread) const {
    return s < barrier_ || thread_of(s) == thread ||
           (fine_ && known_[thread][thread_of(s)] >= s >> THREAD_BITS);
  }
  template <int BYTES>
  bool reads_nothing_new(uint32_t at) const;
  template <int BYTES>
  bool untouched_since_barrier(uint32_t at) const;

  Report read_in_pieces(int thread, uint32_t at, size_t bytes, Site site);
  Report check_write(int thread, uint32_t at, int bytes, Site site);
  void set_written(uint32_t at, int bytes, Stamp stamp, Site site);
  void add_reader(int thread, uint32_t byte, Site site);
  Pending pending(uint32_t byte) const;
  void begin_fine();
  void advance(int thread);

  int threads_ = 0;
  Stamp barrier_ = 0;  // no stamp since the last barrier is below
  bool fine_ = false;  // finer synchronisation since the last barrier: known_ is valid
  bool ever_fine_ = false;
  std::vector<uint32_t> now_;
  std::vector<Clock> known_;  // [t][u]: how far thread t knows thread u
  struct Object {
    Clock open, completed;  // releases of this phase, and of those before; empty: none
  };
  std::unordered_map<const void*, Object> objects_;

  // An array of zeros that takes memory only where it is used.
  template <class T>
  class Zeros {
   public:
    void allocate(size_t n) {
      data_.reset(static_cast<T*>(std::calloc(n, sizeof(T))));
      if (data_ == nullptr) throw std::bad_alloc();
    }
    T& operator[](size_t i) { return data_.get()[i]; }
    const T& operator[](size_t i) const { return data_.get()[i]; }

   private:
    std::unique_ptr<T, decltype(&std::free)> data_{nullptr, &std::free};
  };

  // One entry a byte of shared memory. If there is a second reader, there is a first.
  size_t bytes_ = 0;
  Zeros<Stamp> written_, read_[2];
  Zeros<Site> write_site_, read_site_[2];
  std::unordered_map<uint32_t, std::vector<Reader>> more_readers_;
  std::unordered_map<uint32_t, Pending> pending_;  // by their first byte
  std::vector<StoreRead> store_reads_;
  uint32_t touched_begin_ = 0, touched_end_ = 0;
};

}  // namespace gemm::sim
