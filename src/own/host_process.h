// The process that holds a file of a user's own, as the judge sees it: rungs are launched there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gemm_types.h"
#include "harness/device.h"
#include "own/attempt.h"
#include "own/rungs.h"
#include "sim/vector_types.h"

namespace gemm::own {

// Memory that the judge and its hosts have at one address. One object for the whole program.
class SharedMatrices final : public SimMemory {
 public:
  SharedMatrices();
  ~SharedMatrices() override;
  void* allocate(size_t bytes) override;
  void release(void* p) override;
  int file() const { return file_; }
  char* address() const { return base_; }
  size_t used() const { return used_; }
  static constexpr size_t BYTES = size_t{1} << 38;  // of addresses; memory is what is written

 private:
  int file_ = -1;
  char* base_ = nullptr;
  std::vector<std::pair<size_t, size_t>> taken_;  // first byte and the one behind, ascending
  size_t used_ = 0;
};

class HostProcess {
 public:
  // Starts it. Throws UsageError where it does not come up.
  HostProcess(std::string program, SharedMatrices& memory);
  const std::vector<Interface>& interfaces() const { return interfaces_; }

  // Calls gemm there, as that interface. Throws sim::Error: what it did wrong, in one sentence. A
  // process that has ended is started again for the next call, unless it had to be stopped.
  void run(int interface, const GemmCall& call);
  uint3 grid() const { return grid_; }  // of the last launch that succeeded

 private:
  void start();

  const std::string program_;
  SharedMatrices& memory_;
  std::unique_ptr<Attempt> attempt_;
  std::vector<Interface> interfaces_;
  uint3 grid_ = {};
  int threads_ = 0;  // that it has between calls
  std::string
      hopeless_;  // it did not end: what it said of that call, which no other waits for again
};

}  // namespace gemm::own
