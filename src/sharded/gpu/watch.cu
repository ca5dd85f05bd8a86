#include <algorithm>
#include <chrono>
#include <cstdio>

#include "device/current_device.h"
#include "sharded/gpu/cuda_check.h"
#include "sharded/gpu/watch.h"

namespace gemm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds LOOK(100);
// How long a product may go on after another rank is lost: what that one had to send may have come.
constexpr std::chrono::seconds GRACE(5);
constexpr uint32_t RAISED = 0x3fffffff;  // beyond any number of calls

__global__ void break_context() { __trap(); }

cudaStream_t made_stream() {
  cudaStream_t stream = nullptr;
  GEMM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

Watch::Watch(int device, std::shared_ptr<RankGroup> group)
    : device_(device), group_(std::move(group)) {
  const DeviceScope scope(device);
  breaking_ = made_stream();
  raising_ = made_stream();
  cudaFuncAttributes loads_its_code{};  // while nothing waits
  GEMM_CUDA(cudaFuncGetAttributes(&loads_its_code, break_context));
  thread_ = std::thread([this] { work(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  free_.insert(free_.end(), queued_.begin(), queued_.end());
  free_.push_back(open_);
  for (const Product& p : free_)
    for (const cudaEvent_t event : {p.begin, p.end})
      if (event != nullptr) cudaEventDestroy(event);
  cudaStreamDestroy(breaking_);
  cudaStreamDestroy(raising_);
}

void Watch::add_flags(uint32_t* first, size_t count) {
  const std::lock_guard lock(mutex_);
  flags_.push_back({first, count});
}

void Watch::begin(cudaStream_t stream) {
  const DeviceScope scope(device_);
  if (open_.begin == nullptr) {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      open_ = free_.back();
      free_.pop_back();
    }
  }
  for (cudaEvent_t* const event : {&open_.begin, &open_.end})
    if (*event == nullptr) GEMM_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  GEMM_CUDA(cudaEventRecord(open_.begin, stream));
}

void Watch::end(cudaStream_t stream, uint32_t joins) {
  if (open_.begin == nullptr) return;
  const DeviceScope scope(device_);
  GEMM_CUDA(cudaEventRecord(open_.end, stream));
  open_.joins = joins;
  const std::lock_guard lock(mutex_);
  queued_.push_back(open_);
  open_ = {};
}

std::string Watch::told() const {
  const std::lock_guard lock(mutex_);
  return told_;
}

bool Watch::front(Product& product) const {
  const std::lock_guard lock(mutex_);
  if (queued_.empty()) return false;
  product = queued_.front();
  return true;
}

void Watch::pop() {
  const std::lock_guard lock(mutex_);
  free_.push_back(queued_.front());
  queued_.pop_front();
}

void Watch::work() {
  // Queries of events belong to no stream that somebody may be capturing.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaSetDevice(device_);
  Clock::time_point begun, lost_since;
  bool has_begun = false, is_lost = false;
  for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, LOOK, [&] { return ends_; });) {
    lock.unlock();
    cudaError_t error = cudaSuccess;
    for (Product p; error == cudaSuccess && front(p);) {
      error = cudaEventQuery(p.end);
      if (error == cudaSuccess) pop(), has_begun = false;
    }
    Product p;
    if (error != cudaSuccess && error != cudaErrorNotReady) {
      cudaGetLastError();
      group_->fail("its GPU failed: " + describe(error));
      return;
    }
    if (error == cudaErrorNotReady && front(p) && cudaEventQuery(p.begin) == cudaSuccess) {
      const Clock::time_point now = Clock::now();
      if (!has_begun) begun = now, has_begun = true;
      std::string why = group_->lost();
      if (!why.empty() && !is_lost) lost_since = now;
      is_lost = !why.empty();
      const bool late = now - begun > group_->limit();
      if (late && why.empty()) why = who_is_missing(p);
      if (late || (is_lost && now - lost_since > std::min<Clock::duration>(GRACE, group_->limit())))
        return give_up(why);
    }
    cudaGetLastError();  // "not ready" is no error
    lock.lock();
  }
}

std::string Watch::who_is_missing(const Product& product) {
  const std::string within = " within " + std::to_string(group_->limit().count() / 1000) + " s";
  std::vector<uint32_t> joined(group_->ranks());
  if (cudaMemcpyAsync(joined.data(), flags_.front().first, joined.size() * sizeof(uint32_t),
                      cudaMemcpyDeviceToHost, raising_) == cudaSuccess &&
      cudaStreamSynchronize(raising_) == cudaSuccess)
    for (int rank = 0; rank < group_->ranks(); ++rank)
      if (rank != group_->rank() && static_cast<int32_t>(joined[rank] - product.joins) < 0)
        return "rank " + std::to_string(rank) + " has not come" + within;
  return "the product has not ended" + within;
}

void Watch::give_up(const std::string& why) {
  std::fprintf(
      stderr, "gemm_ladder: rank %d: %s; its product cannot end, so this process gives up GPU %d\n",
      group_->rank(), why.c_str(), device_);
  std::fflush(stderr);
  std::vector<Flags> flags;
  {
    const std::lock_guard lock(mutex_);
    told_ = why;
    flags = flags_;
  }
  group_->fail("it has given up: " + why);
  // At once where streams wait. A kernel that waits has all SMs: its flags must rise first.
  break_context<<<1, 1, 0, breaking_>>>();
  for (const Flags& f : flags) {
    const std::vector<uint32_t> raised(f.count, RAISED);
    cudaMemcpyAsync(f.first, raised.data(), f.count * sizeof(uint32_t), cudaMemcpyHostToDevice,
                    raising_);
    cudaStreamSynchronize(raising_);
  }
  cudaGetLastError();
}

}  // namespace gemm
