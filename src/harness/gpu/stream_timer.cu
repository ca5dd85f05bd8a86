#include <algorithm>
#include <chrono>
#include <thread>

#include "harness/gpu/cuda_check.h"
#include "harness/gpu/stream_timer.h"

namespace gemm {

struct StreamTimer::Gate {
  volatile int64_t open = 0;       // rounds up to this one may start; written by the host
  volatile int64_t timed_out = 0;  // the last round that did not wait for the host
};
struct StreamTimer::Opener {
  Gate* gate;
  int64_t round;
  ~Opener() { gate->open = round; }
};

namespace {

// Ends when the host opens the gate, and after two seconds in any case, so that a launch which
// waits for the GPU cannot wait for ever.
__global__ void hold_kernel(const volatile int64_t* open, volatile int64_t* timed_out,
                            int64_t round) {
  const auto now = [] {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  };
  const uint64_t start = now();
  while (*open < round) {
    if (now() - start > 2'000'000'000) {
      *timed_out = round;
      return;
    }
    __nanosleep(200);
  }
}

}  // namespace

StreamTimer::StreamTimer(cudaStream_t stream) : stream_(stream) {
  // Mapped and portable by default under unified addressing: the GPU uses the host's pointer.
  GEMM_CUDA(cudaMallocHost(&gate_, sizeof(Gate)));
  new (gate_) Gate;
  run({}, true);  // loads hold_kernel
}

// Not checked: these can only repeat an earlier kernel's failure.
StreamTimer::~StreamTimer() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaFreeHost(gate_);
}

void StreamTimer::hold() {
  hold_kernel<<<1, 1, 0, stream_>>>(&gate_->open, &gate_->timed_out, round_);
  check_cuda(cudaGetLastError(), "hold_kernel");
}

bool StreamTimer::look_while_held(const std::function<void()>& launch, double seconds,
                                  const std::function<void()>& look) {
  if (!can_hold_) return false;
  ++round_;
  {
    const Opener opener{gate_, round_};
    hold();
    launch();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    look();
  }
  GEMM_CUDA(cudaStreamSynchronize(stream_));
  can_hold_ = gate_->timed_out != round_;
  return can_hold_;
}

std::vector<double> StreamTimer::run(const std::vector<Sample>& samples, bool held) {
  while (events_.size() < 2 * samples.size()) {
    cudaEvent_t event;
    GEMM_CUDA(cudaEventCreate(&event));
    events_.push_back(event);
  }
  ++round_;
  {
    const Opener opener{gate_, round_};
    if (held && can_hold_) hold();
    for (size_t i = 0; i < samples.size(); ++i) {
      GEMM_CUDA(cudaEventRecord(events_[2 * i], stream_));
      for (int n = 0; n < samples[i].launches; ++n) (*samples[i].launch)();
      GEMM_CUDA(cudaEventRecord(events_[2 * i + 1], stream_));
    }
  }
  GEMM_CUDA(cudaStreamSynchronize(stream_));
  if (gate_->timed_out == round_) {  // some launch waits for the GPU: time it as it comes
    can_hold_ = false;
    return run(samples, false);
  }
  std::vector<double> seconds(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    float ms = 0;
    GEMM_CUDA(cudaEventElapsedTime(&ms, events_[2 * i], events_[2 * i + 1]));
    // Half a microsecond is an event's resolution: a rate is never infinite.
    seconds[i] = std::max(ms, 0.5e-3f) / 1e3 / samples[i].launches;
  }
  return seconds;
}

}  // namespace gemm
