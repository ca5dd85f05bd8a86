// GPUs of one host with peer access, as a Fabric; collectives are NCCL's.
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

// cuStreamWriteValue32.
auto stream_writer() {
  using Write = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  static const auto write = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    GEMM_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &found, 12000,
                                               cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess)
      throw std::runtime_error("the driver has no cuStreamWriteValue32");
    return reinterpret_cast<Write>(found);
  }();
  return write;
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

class GpuFabric final : public Fabric {
 public:
  explicit GpuFabric(const std::vector<int>& devices) : of_(devices.size()) {
    for (int rank = 0; rank < ranks(); ++rank) {
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
  // Not checked: at the end it can only repeat an earlier failure.
  ~GpuFabric() override {
#if GEMM_HAS_NCCL
    for (const ncclComm_t comm : comms_) Nccl::get().abort(comm);
#endif
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  Backend backend() const override { return Backend::gpu; }
  int ranks() const override { return static_cast<int>(of_.size()); }
  int device(int rank) const override { return of_[rank].device; }
  void* compute(int rank) override { return of_[rank].streams.compute; }
  void* copies(int rank) override { return of_[rank].streams.copies; }

  void* allocate(int rank, size_t bytes, const std::string&, Contents contents) override {
    const DeviceScope scope(device(rank));
    void* p = nullptr;
    GEMM_CUDA(cudaMalloc(&p, std::max<size_t>(bytes, 1)));
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
  void write_flag(void* stream, uint32_t* flag, uint32_t value, Where) override {
    const DeviceScope scope(device_of(stream));
    const CUresult result = stream_writer()(static_cast<CUstream>(stream),
                                            reinterpret_cast<CUdeviceptr>(flag), value, 0);
    if (result != CUDA_SUCCESS)
      throw std::runtime_error("cuStreamWriteValue32: error " + std::to_string(result));
  }

  Event record(void* stream, Where) override { return record_on(rank_of(stream), stream); }
  void wait(void* stream, Event event, Where) override { wait_on(rank_of(stream), stream, event); }
  void begin_after(int rank, void* callers_stream) override {
    wait_on(rank, compute(rank), record_on(rank, callers_stream));
  }
  void end_before(int rank, void* callers_stream) override {
    wait_on(rank, callers_stream, record_on(rank, compute(rank)));
  }
  void mark() override {
    marked_ = false;
    for (Rank& of : of_) {
      const DeviceScope scope(of.device);
      const cudaStream_t streams[] = {of.streams.compute, of.streams.copies};
      for (size_t i = 0; i < std::size(streams); ++i) {
        if (of.marks.size() == i) of.marks.push_back(make_event());
        GEMM_CUDA(cudaEventRecord(events_[of.marks[i]], streams[i]));
      }
    }
    marked_ = true;
  }
  void wait_for_mark() override {
    if (!marked_) return synchronize();  // a mark has failed: all streams, to be safe
    const auto end = Clock::now() + TIME_LIMIT;
    for (int rank = 0; rank < ranks(); ++rank) {
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
    if (element != Element::f16 && element != Element::bf16)
      throw std::logic_error("reduce_scatter adds f16 and bf16");
    const ncclDataType_t type = element == Element::f16 ? ncclFloat16 : ncclBfloat16;
    in_group([&](const Nccl& nccl, int rank) {
      nccl.check(nccl.reduce_scatter(from[rank], to[rank], count, type, ncclSum, comms_[rank],
                                     of_[rank].streams.compute),
                 "ncclReduceScatter");
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
#endif

  void synchronize() override {
    const auto end = Clock::now() + TIME_LIMIT;
    for (int rank = 0; rank < ranks(); ++rank) {
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
  };

  int rank_of(void* stream) const {
    for (int rank = 0; rank < ranks(); ++rank)
      if (of_[rank].streams.compute == stream || of_[rank].streams.copies == stream) return rank;
    throw std::logic_error("not a stream of this fabric");
  }
  int device_of(void* stream) const { return device(rank_of(stream)); }

  // By a stream of the rank's device, the fabric's or a caller's.
  Event record_on(int rank, void* stream) {
    const DeviceScope scope(device(rank));
    const int index = next_event(rank);
    GEMM_CUDA(cudaEventRecord(events_[index], static_cast<cudaStream_t>(stream)));
    return {index};
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
    own.events.push_back(make_event());
    return own.events.back();
  }
  // Index of a new event of the current device.
  int make_event() {
    cudaEvent_t event = nullptr;
    GEMM_CUDA(cudaEventCreate(&event));
    events_.push_back(event);
    return static_cast<int>(events_.size()) - 1;
  }

#if GEMM_HAS_NCCL
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

  std::vector<Rank> of_;
  std::vector<cudaEvent_t> events_;
  bool marked_ = true;  // or nothing has been queued yet
  std::exception_ptr release_failure_;
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

}  // namespace gemm
