// GPUs of one host with peer access, as a Fabric; collectives are NCCL's. Ranks are all in this
// process, or this one is one of several and the others' memory is mapped into it.
#include <cuda.h>  // types only: the one function is asked of the driver, so nothing links libcuda
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/current_device.h"
#include "sharded/fabric.h"
#include "sharded/gpu/cuda_check.h"
#include "sharded/gpu/watch.h"
#include "sharded/rank_group.h"
#if __has_include(<nccl.h>)
#include <nccl.h>
#define GEMM_HAS_NCCL 1
#else
#define GEMM_HAS_NCCL 0
#endif

namespace gemm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds TIME_LIMIT(60);  // of what is queued: nobody waits for ever

// Asks until a rank's work has ended. Throws DeviceFault when it has failed, or at `end`.
template <class Query>
void poll(int rank, Clock::time_point end, Query&& query) {
  cudaError_t error = query();
  for (; error == cudaErrorNotReady; error = query()) {
    cudaGetLastError();
    if (Clock::now() > end)
      throw DeviceFault("rank " + std::to_string(rank) + ": what was queued has not ended within " +
                        std::to_string(TIME_LIMIT.count()) + " s");
    std::this_thread::yield();
  }
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceFault("rank " + std::to_string(rank) + ": " + describe(error));
}

#if GEMM_HAS_NCCL
// NCCL's functions, asked of the library when they are first needed: programs without several GPUs
// need none.
struct Nccl {
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  std::string missing;  // why there is none; empty: all are there

  Nccl() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW);
    if (library == nullptr) {
      missing = "libnccl.so.2 was not found";
      return;
    }
    const auto load = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) missing = std::string("libnccl.so.2 has no ") + name;
    };
    load(init_all, "ncclCommInitAll");
    load(abort, "ncclCommAbort");
    load(group_start, "ncclGroupStart");
    load(group_end, "ncclGroupEnd");
    load(all_gather, "ncclAllGather");
    load(reduce_scatter, "ncclReduceScatter");
    load(all_reduce, "ncclAllReduce");
    load(error_string, "ncclGetErrorString");
  }
  static const Nccl& get() {
    static const Nccl nccl;
    return nccl;
  }
  void check(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess)
      throw std::runtime_error(std::string(call) + ": " + error_string(result));
  }
};
#endif

// Queues writes of flags and waits for flags, in one call of the driver: each takes as long as a launch.
void queue_flags(cudaStream_t stream, std::vector<CUstreamBatchMemOpParams>& all) {
  using StreamBatch = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  static const StreamBatch batch = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    GEMM_CUDA(cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &found, 12000,
                                               cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess)
      throw std::runtime_error("the driver has no cuStreamBatchMemOp");
    return reinterpret_cast<StreamBatch>(found);
  }();
  if (const CUresult error = batch(stream, static_cast<unsigned>(all.size()), all.data(), 0);
      error != CUDA_SUCCESS)
    throw std::runtime_error("cuStreamBatchMemOp: error " + std::to_string(error));
}

// The two streams of one GPU, which all fabrics share. Never destroyed: at exit CUDA may be gone
// first.
struct Streams {
  cudaStream_t compute = nullptr, copies = nullptr;
};
const Streams& streams_of(int device) {
  static std::mutex mutex;
  static std::map<int, Streams>& all = *new std::map<int, Streams>;
  const std::lock_guard lock(mutex);
  if (const auto it = all.find(device); it != all.end()) return it->second;
  const DeviceScope scope(device);
  Streams made;
  GEMM_CUDA(cudaStreamCreateWithFlags(&made.compute, cudaStreamNonBlocking));
  GEMM_CUDA(cudaStreamCreateWithFlags(&made.copies, cudaStreamNonBlocking));
  return all[device] = made;
}

// Memory of a rank that is done, which the others may not be with it. Freed when they have let go
// of it, at the next occasion.
class Leftovers {
 public:
  static Leftovers& get() {
    static Leftovers& all = *new Leftovers;  // never destroyed: at exit CUDA may be gone first
    return all;
  }
  void add(std::shared_ptr<RankGroup> group, int device, std::vector<void*> memory) {
    const std::lock_guard lock(mutex_);
    all_.push_back({std::move(group), device, std::move(memory)});
  }
  void free() {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const Left& left) {
      if (!left.group->all_have_left()) return false;
      const DeviceScope scope(left.device);
      for (void* const p : left.memory) cudaFree(p);
      cudaGetLastError();
      return true;
    });
  }

 private:
  struct Left {
    std::shared_ptr<RankGroup> group;
    int device;
    std::vector<void*> memory;
  };
  std::mutex mutex_;
  std::vector<Left> all_;
};

class GpuFabric final : public Fabric {
 public:
  explicit GpuFabric(const std::vector<int>& devices) : of_(devices.size()) {
    for (int rank = 0; rank < ranks(); ++rank) {
      here_.push_back(rank);
      of_[rank].device = devices[rank];
      const DeviceScope scope(devices[rank]);
      for (const int peer : devices) {
        if (peer == devices[rank]) continue;
        const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
        if (error == cudaErrorPeerAccessAlreadyEnabled)
          cudaGetLastError();
        else
          GEMM_CUDA(error);
      }
      of_[rank].streams = streams_of(devices[rank]);
    }
  }
  // One rank; the others are other processes.
  GpuFabric(int device, std::shared_ptr<RankGroup> group)
      : of_(group->ranks()), here_{group->rank()}, group_(std::move(group)) {
    Rank& own = of_[here_[0]];
    own.device = device;
    const DeviceScope scope(device);
    own.streams = streams_of(device);
    Leftovers::get().free();
    watch_ = std::make_unique<Watch>(device, group_);
    try {
      joined_ = allocate_symmetric(ranks() * sizeof(uint32_t), "joined", Contents::zeros);
      group_->gather([&] {
        try_to_join();
        return 0;
      });
    } catch (...) {
      let_go();
      throw;
    }
  }
  // Not checked: at the end it can only repeat an earlier failure.
  ~GpuFabric() override {
    if (group_ != nullptr) let_go();
#if GEMM_HAS_NCCL
    for (const ncclComm_t comm : comms_) Nccl::get().abort(comm);
#endif
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  Backend backend() const override { return Backend::gpu; }
  int ranks() const override { return static_cast<int>(of_.size()); }
  const std::vector<int>& here() const override { return here_; }
  int device(int rank) const override { return of_[rank].device; }
  void* compute(int rank) override { return of_[rank].streams.compute; }
  void* copies(int rank) override { return of_[rank].streams.copies; }

  void* allocate(int rank, size_t bytes, const std::string&, Contents contents) override {
    const DeviceScope scope(device(rank));
    void* p = nullptr;
    // To share a part of a block of memory is to share all of it: then it is a block of its own.
    constexpr size_t BLOCK = size_t{2} << 20;
    const size_t least = group_ == nullptr ? 1 : (bytes + BLOCK) / BLOCK * BLOCK;
    GEMM_CUDA(cudaMalloc(&p, std::max(bytes, least)));
    if (contents == Contents::zeros) {
      // Not on the default stream, nor by waiting for the device: either would end a capture.
      const cudaStream_t copies = of_[rank].streams.copies;
      GEMM_CUDA(cudaMemsetAsync(p, 0, bytes, copies));
      poll(rank, Clock::now() + TIME_LIMIT, [&] { return cudaStreamQuery(copies); });
    }
    return p;
  }
  void release(int rank, void* p) noexcept override {
    try {
      const DeviceScope scope(device(rank));
      GEMM_CUDA(cudaFree(p));  // waits for all that runs on the device
    } catch (...) {
      if (release_failure_ == nullptr) release_failure_ = std::current_exception();
    }
  }
  std::vector<void*> allocate_symmetric(size_t bytes, const std::string& name,
                                        Contents contents) override {
    if (group_ == nullptr) return Fabric::allocate_symmetric(bytes, name, contents);
    const int rank = here_[0];
    const DeviceScope scope(device(rank));
    std::vector<void*> all(ranks());
    const auto handles = group_->gather([&] {
      all[rank] = allocate(rank, bytes, name, contents);
      own_memory_.push_back(all[rank]);
      cudaIpcMemHandle_t handle;
      GEMM_CUDA(cudaIpcGetMemHandle(&handle, all[rank]));
      return handle;
    });
    try {
      group_->gather([&] {
        for (int other = 0; other < ranks(); ++other)
          if (other != rank)
            GEMM_CUDA(
                cudaIpcOpenMemHandle(&all[other], handles[other], cudaIpcMemLazyEnablePeerAccess));
        return 0;
      });
    } catch (...) {
      release_symmetric(all);
      throw;
    }
    if (contents == Contents::zeros)
      watch_->add_flags(static_cast<uint32_t*>(all[rank]), bytes / sizeof(uint32_t));
    return all;
  }
  // This rank's own memory stays until let_go().
  void release_symmetric(const std::vector<void*>& all) noexcept override {
    if (group_ == nullptr) return Fabric::release_symmetric(all);
    for (int other = 0; other < static_cast<int>(all.size()); ++other) try {
        if (other == here_[0] || all[other] == nullptr) continue;
        const DeviceScope scope(device(here_[0]));
        GEMM_CUDA(cudaIpcCloseMemHandle(all[other]));
      } catch (...) {
        if (release_failure_ == nullptr) release_failure_ = std::current_exception();
      }
  }
  void check_released() override {
    if (const auto failure = std::exchange(release_failure_, nullptr); failure != nullptr)
      std::rethrow_exception(failure);
  }

  void copy(void* stream, const Region& r, Where) override {
    const DeviceScope scope(device_of(stream));
    auto* const on = static_cast<cudaStream_t>(stream);
    if (r.width == 0 || r.rows == 0) return;
    if (r.width == r.to_pitch && r.width == r.from_pitch)
      GEMM_CUDA(cudaMemcpyAsync(r.to, r.from, r.width * r.rows, cudaMemcpyDeviceToDevice, on));
    else
      GEMM_CUDA(cudaMemcpy2DAsync(r.to, r.to_pitch, r.from, r.from_pitch, r.width, r.rows,
                                  cudaMemcpyDeviceToDevice, on));
  }
  void write_flag(void* stream, uint32_t* flag, uint32_t value, Where where) override {
    exchange_flags(stream, {flag}, {}, value, where);
  }
  void wait_flag(void* stream, uint32_t* flag, uint32_t at_least, Where where) override {
    exchange_flags(stream, {}, {flag}, at_least, where);
  }
  void exchange_flags(void* stream, const std::vector<uint32_t*>& to,
                      const std::vector<uint32_t*>& from, uint32_t value, Where) override {
    std::vector<CUstreamBatchMemOpParams> all;
    for (uint32_t* const flag : to)
      all.emplace_back().writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                       reinterpret_cast<CUdeviceptr>(flag),
                                       {value},
                                       CU_STREAM_WRITE_VALUE_DEFAULT,
                                       0};
    for (uint32_t* const flag : from)
      all.emplace_back().waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                      reinterpret_cast<CUdeviceptr>(flag),
                                      {value},
                                      CU_STREAM_WAIT_VALUE_GEQ,
                                      0};
    const DeviceScope scope(device_of(stream));
    queue_flags(static_cast<cudaStream_t>(stream), all);
  }

  Event record(void* stream, Where) override {
    const int rank = rank_of(stream);
    const DeviceScope scope(device(rank));
    const int index = next_event(rank);
    GEMM_CUDA(cudaEventRecord(events_[index], static_cast<cudaStream_t>(stream)));
    return {index};
  }
  void wait(void* stream, Event event, Where) override { wait_on(rank_of(stream), stream, event); }
  void begin_after(int rank, void* callers_stream) override {
    wait_on(rank, compute(rank), now_in(rank, callers_stream));
    if (watch_ != nullptr) watch_->begin(of_[rank].streams.compute);
  }
  void end_before(int rank, void* callers_stream) override {
    wait_on(rank, callers_stream, now_in(rank, compute(rank)));
  }
  void join_ranks(Where where) override {
    if (group_ != nullptr) return join_by_flags(*this, compute(here_[0]), joined_, ++joins_, where);
    for (const int rank : here_) now_in(rank, compute(rank));
    for (const int rank : here_)
      for (const int other : here_)
        if (other != rank) wait_on(rank, compute(rank), {of_[other].now});
  }
  std::string lost() override {
    if (group_ == nullptr) return {};
    const std::string told = watch_->told();
    return told.empty() ? group_->failed() : told;
  }
  void fail(const std::string& why) noexcept override {
    if (group_ != nullptr) group_->fail(why);
  }
  void mark() override {
    marked_ = false;
    if (watch_ != nullptr) watch_->end(of_[here_[0]].streams.compute, joins_);
    for (const int rank : here_) {
      Rank& of = of_[rank];
      const DeviceScope scope(of.device);
      const cudaStream_t streams[] = {of.streams.compute, of.streams.copies};
      for (size_t i = 0; i < std::size(streams); ++i) {
        if (of.marks.size() == i) of.marks.push_back(make_event(cudaEventDisableTiming));
        GEMM_CUDA(cudaEventRecord(events_[of.marks[i]], streams[i]));
      }
    }
    marked_ = true;
  }
  void wait_for_mark() override {
    if (!marked_) return synchronize();  // a mark has failed: all streams, to be safe
    const auto end = Clock::now() + TIME_LIMIT;
    for (const int rank : here_) {
      const DeviceScope scope(device(rank));
      for (const int mark : of_[rank].marks)
        poll(rank, end, [&] { return cudaEventQuery(events_[mark]); });
    }
  }

  std::string without_collectives() const override {
#if GEMM_HAS_NCCL
    return Nccl::get().missing;
#else
    return "this program was built without NCCL's header, nccl.h";
#endif
  }
#if GEMM_HAS_NCCL
  void all_gather(const std::vector<const void*>& from, const std::vector<void*>& to,
                  size_t bytes) override {
    in_group([&](const Nccl& nccl, int rank) {
      nccl.check(nccl.all_gather(from[rank], to[rank], bytes, ncclInt8, comms_[rank],
                                 of_[rank].streams.compute),
                 "ncclAllGather");
    });
  }
  void reduce_scatter(const std::vector<const void*>& from, const std::vector<void*>& to,
                      size_t count, Element element) override {
    in_group([&](const Nccl& nccl, int rank) {
      nccl.check(nccl.reduce_scatter(from[rank], to[rank], count, type_of(element), ncclSum,
                                     comms_[rank], of_[rank].streams.compute),
                 "ncclReduceScatter");
    });
  }
  void all_reduce(const std::vector<const void*>& from, const std::vector<void*>& to, size_t count,
                  Element element) override {
    in_group([&](const Nccl& nccl, int rank) {
      nccl.check(nccl.all_reduce(from[rank], to[rank], count, type_of(element), ncclSum,
                                 comms_[rank], of_[rank].streams.compute),
                 "ncclAllReduce");
    });
  }
#else
  void all_gather(const std::vector<const void*>&, const std::vector<void*>&, size_t) override {
    throw std::logic_error(without_collectives());
  }
  void reduce_scatter(const std::vector<const void*>&, const std::vector<void*>&, size_t,
                      Element) override {
    throw std::logic_error(without_collectives());
  }
  void all_reduce(const std::vector<const void*>&, const std::vector<void*>&, size_t,
                  Element) override {
    throw std::logic_error(without_collectives());
  }
#endif

  void synchronize() override {
    const auto end = Clock::now() + TIME_LIMIT;
    for (const int rank : here_) {
      const DeviceScope scope(device(rank));
      for (const cudaStream_t stream : {of_[rank].streams.compute, of_[rank].streams.copies})
        poll(rank, end, [&] { return cudaStreamQuery(stream); });
    }
  }
  double milliseconds(Event from, Event to) override {
    float ms = 0;
    GEMM_CUDA(cudaEventElapsedTime(&ms, events_[from.index], events_[to.index]));
    return ms;
  }

 private:
  struct Rank {
    int device = 0;
    Streams streams;
    std::vector<int> events;  // of its device: indices of events_
    size_t taken = 0;         // of those, again
    std::vector<int> marks;   // of compute and of copies: indices of events_
    int now = -1;             // likewise, of now_in()
  };

  int rank_of(void* stream) const {
    if (here_.size() == 1) return here_[0];
    for (int rank = 0; rank < ranks(); ++rank)
      if (of_[rank].streams.compute == stream || of_[rank].streams.copies == stream) return rank;
    throw std::logic_error("not a stream of this fabric");
  }
  int device_of(void* stream) const { return device(rank_of(stream)); }

  // Whether flags come from every rank, before anything relies on it. On a stream of its own:
  // products of other threads are not to be waited for.
  void try_to_join() {
    cudaStream_t stream = nullptr;
    GEMM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto end = Clock::now() + std::min<Clock::duration>(TIME_LIMIT, group_->limit());
    try {
      join_by_flags(*this, stream, joined_, ++joins_, Where::current());
      poll(here_[0], end, [&] { return cudaStreamQuery(stream); });
    } catch (...) {
      for (int other = 0; other < ranks(); ++other) try {  // nothing may wait for them any more
          write_flag(of_[here_[0]].streams.copies, flag_of(here_[0]) + other, joins_,
                     Where::current());
        } catch (const std::exception&) {  // the first failure is the one to tell
        }
      cudaStreamDestroy(stream);
      throw;
    }
    cudaStreamDestroy(stream);
  }
  uint32_t* flag_of(int rank) const { return static_cast<uint32_t*>(joined_[rank]); }
  // The others' memory is no longer touched; this rank's is freed when they no longer touch it.
  void let_go() noexcept {
    watch_.reset();
    release_symmetric(joined_);
    group_->leave();
    try {
      Leftovers::get().add(group_, device(here_[0]), std::move(own_memory_));
      Leftovers::get().free();
    } catch (const std::exception&) {  // the memory stays
    }
  }

  // What is now in a stream of the rank's device, the fabric's or a caller's: to be waited for at
  // once. One event without a time, as who waits for it waits for its last record.
  Event now_in(int rank, void* stream) {
    const DeviceScope scope(device(rank));
    int& now = of_[rank].now;
    if (now < 0) now = make_event(cudaEventDisableTiming);
    GEMM_CUDA(cudaEventRecord(events_[now], static_cast<cudaStream_t>(stream)));
    return {now};
  }
  void wait_on(int rank, void* stream, Event event) {
    const DeviceScope scope(device(rank));
    GEMM_CUDA(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), events_[event.index]));
  }

  // An event of the rank's device, taken again when 4096 others have been recorded since: by then
  // nobody waits for it.
  int next_event(int rank) {
    constexpr size_t MOST = 4096;
    Rank& own = of_[rank];
    if (own.events.size() == MOST) return own.events[own.taken++ % MOST];
    own.events.push_back(make_event(cudaEventDefault));
    return own.events.back();
  }
  // Index of a new event of the current device.
  int make_event(unsigned flags) {
    cudaEvent_t event = nullptr;
    GEMM_CUDA(cudaEventCreateWithFlags(&event, flags));
    events_.push_back(event);
    return static_cast<int>(events_.size()) - 1;
  }

#if GEMM_HAS_NCCL
  static ncclDataType_t type_of(Element element) {
    if (element != Element::f16 && element != Element::bf16)
      throw std::logic_error("collectives add f16 and bf16");
    return element == Element::f16 ? ncclFloat16 : ncclBfloat16;
  }
  template <class Call>
  void in_group(Call&& call) {
    const Nccl& nccl = Nccl::get();
    if (!nccl.missing.empty()) throw std::runtime_error(nccl.missing);
    if (comms_.empty()) {
      std::vector<ncclComm_t> made(ranks());
      std::vector<int> all;
      for (int rank = 0; rank < ranks(); ++rank) all.push_back(device(rank));
      nccl.check(nccl.init_all(made.data(), ranks(), all.data()), "ncclCommInitAll");
      comms_ = made;
    }
    nccl.check(nccl.group_start(), "ncclGroupStart");
    try {
      for (int rank = 0; rank < ranks(); ++rank) call(nccl, rank);
    } catch (...) {
      nccl.group_end();  // else all later calls of this thread would join this group
      throw;
    }
    nccl.check(nccl.group_end(), "ncclGroupEnd");
  }
  std::vector<ncclComm_t> comms_;
#endif

  std::vector<Rank> of_;  // by rank: those that are here
  std::vector<int> here_;
  std::vector<cudaEvent_t> events_;
  bool marked_ = true;  // or nothing has been queued yet
  std::exception_ptr release_failure_;
  // Where each rank has a process.
  const std::shared_ptr<RankGroup> group_;
  std::unique_ptr<Watch> watch_;
  std::vector<void*> joined_;      // of each rank: (ranks) flags
  std::vector<void*> own_memory_;  // of this rank, that others reach
  uint32_t joins_ = 0;
};

}  // namespace

std::unique_ptr<Fabric> make_gpu_fabric(const std::vector<int>& devices, std::string& why) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    cudaGetLastError();
    why = error == cudaSuccess ? "there is no GPU" : describe(error);
    return nullptr;
  }
  if (*std::max_element(devices.begin(), devices.end()) >= count) {
    why =
        "there " + std::string(count == 1 ? "is 1 GPU" : "are " + std::to_string(count) + " GPUs");
    return nullptr;
  }
  for (const int device : devices)
    for (const int peer : devices) {
      int reaches = 1;
      if (peer != device) GEMM_CUDA(cudaDeviceCanAccessPeer(&reaches, device, peer));
      if (reaches != 0) continue;
      why = "GPU " + std::to_string(device) + " cannot reach the memory of GPU " +
            std::to_string(peer);
      return nullptr;
    }
  return std::make_unique<GpuFabric>(devices);
}

std::unique_ptr<Fabric> make_gpu_rank(int device, std::shared_ptr<RankGroup> group) {
  return std::make_unique<GpuFabric>(device, std::move(group));
}

}  // namespace gemm
