// Times work that is queued on a stream, without the host in between.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace gemm {

// A few launches that are timed together.
struct Sample {
  const std::function<void()>* launch;  // queues one launch and does not wait
  int launches;
};

class StreamTimer {
 public:
  explicit StreamTimer(cudaStream_t stream);
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  // Queues all samples back to back, waits, and returns the seconds that one launch of each took.
  // `hold` keeps the GPU from starting before everything is queued: without it, launches shorter
  // than their queueing (a few us) would be timed with the gaps between them. All code must have
  // run before (loading it may wait for the GPU), and a CUDA stream takes about 1000 launches
  // before it makes the host wait. Where a launch waits for the GPU all the same, the samples are
  // timed once more without holding, and nothing is held from then on. Throws std::runtime_error.
  std::vector<double> run(const std::vector<Sample>& samples, bool hold);
  bool can_hold() const { return can_hold_; }
  // Queues a launch while the stream is held, waits so many seconds and calls look() before anything
  // of the stream can run. False where a launch waits for the GPU: then look() may have come late.
  bool look_while_held(const std::function<void()>& launch, double seconds,
                       const std::function<void()>& look);

 private:
  struct Gate;    // in host memory that the GPU reads
  struct Opener;  // opens it in the end, also when queueing throws
  void hold();

  cudaStream_t stream_;
  Gate* gate_ = nullptr;
  int64_t round_ = 0;
  bool can_hold_ = true;
  std::vector<cudaEvent_t> events_;  // two a sample, kept for the next run
};

}  // namespace gemm
