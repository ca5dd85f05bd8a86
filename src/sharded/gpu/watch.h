// Whether what a rank has queued ends: its GPU waits for other processes, which may be gone.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sharded/rank_group.h"

namespace gemm {

// A thread that looks at a rank's products ten times a second. One that has begun and does not end
// is given up: after the group's limit, or some seconds after another rank has failed or ended.
// Nobody can take back what a GPU has been given to do, so the thread breaks the GPU's context.
// Every call of CUDA fails from then on, the one that waits for the product, too. One line on
// stderr says why.
class Watch {
 public:
  Watch(int device, std::shared_ptr<RankGroup> group);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Memory of this rank whose flags kernels or streams may wait for. The first one has a flag for
  // each rank, that rises when it joins.
  void add_flags(uint32_t* first, size_t count);
  // A product begins and ends here in the stream. `joins`: how often ranks have joined by then.
  void begin(cudaStream_t stream);
  void end(cudaStream_t stream, uint32_t joins);
  // Why a product has been given up; empty: none has been.
  std::string told() const;

 private:
  struct Product {
    cudaEvent_t begin = nullptr, end = nullptr;
    uint32_t joins = 0;
  };
  struct Flags {
    uint32_t* first;
    size_t count;
  };

  void work();
  bool front(Product& product) const;
  void pop();
  std::string who_is_missing(const Product& product);
  void give_up(const std::string& why);

  const int device_;
  const std::shared_ptr<RankGroup> group_;
  cudaStream_t breaking_ = nullptr, raising_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::string told_;
  std::vector<Flags> flags_;
  Product open_;                // begun, and not ended
  std::deque<Product> queued_;  // oldest first
  std::vector<Product> free_;   // whose events are used again
  std::thread thread_;          // last: it begins when the rest is there
};

}  // namespace gemm
