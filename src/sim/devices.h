// Several devices in one process: their memory, streams that run side by side, copy engines,
// events. Launches on such a stream (gemm::launch, device/workspace.h) are queued, with copies of
// their arguments, and run in synchronize(), together with all else that is queued. Shared by the
// plain and the traced build; what a traced launch does wrong to such memory is found by line (see
// README.md).
//
//   sim::Devices devices(2);
//   void* const s = devices.stream(0, "main");
//   auto* const flag = static_cast<uint32_t*>(devices.allocate(0, 4, "flag"));
//   devices.set_bytes(flag, 0, 4);
//   gemm::launch(kernel, 4, 256, {}, s, flag);
//   devices.write_value(devices.stream(1, "other"), flag, 1);
//   devices.synchronize();
//
// Everything is deterministic: one OS thread runs at a time, and which one goes on is decided by
// what waits for what. The schedule (AsyncSchedule) decides whether copies come early or late. By
// one host thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace gemm::sim {

struct Event {
  int index = -1;
};

// Rows of `width` bytes, `pitch` bytes apart.
struct Copy {
  void* to;
  int64_t to_pitch;
  const void* from;
  int64_t from_pitch;
  int64_t width, rows;
};

struct Span {
  const void* first;
  size_t bytes;
};

class Devices {
 public:
  static constexpr int MOST = 16;
  static constexpr int SMS = 4;  // of each: simulated_arch().ctas
  using Where = std::source_location;

  // 1 to MOST of them.
  explicit Devices(int count);
  ~Devices();  // abandons what has not run
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  int count() const;

  // Its work runs in order, beside that of other streams. Lives as long as this.
  void* stream(int device, std::string name);
  // Memory of `device` that all devices reach, 256-byte aligned, all bytes 0xff. Throws
  // std::bad_alloc.
  void* allocate(int device, size_t bytes, std::string name);
  void release(void* p);  // when nothing is queued any more
  // At once; the host's own work. Only while nothing is queued.
  void set_bytes(void* p, int value, size_t bytes);

  // By a copy engine. What lies in no memory from `allocate` is the host's.
  void copy(void* stream, const Copy& copy, Where where = Where::current());
  // cuStreamWriteValue32: releases all that comes before it in the stream.
  void write_value(void* stream, uint32_t* flag, uint32_t value, Where where = Where::current());
  // cuStreamWaitValue32 until at least that value: what follows in the stream knows what was
  // released with it. Nothing raises the flag but other streams and kernels.
  void wait_value(void* stream, const uint32_t* flag, uint32_t at_least,
                  Where where = Where::current());
  // The host's work in stream order, such as a collective's arithmetic. What it touches of memory
  // from `allocate` is checked only if it is named.
  void call(void* stream, std::function<void()> work, Where where = Where::current());
  void call(void* stream, std::function<void()> work, std::vector<Span> reads,
            std::vector<Span> writes, Where where = Where::current());
  // The event of what is in the stream now; a stream waits until that has happened.
  Event record(void* stream, Where where = Where::current());
  void wait(void* stream, Event event, Where where = Where::current());

  // Runs what is queued until all streams are empty. Throws Error: the first failure, or a deadlock,
  // with who waits for what at which line, and what stands behind what. The streams are empty then
  // as well.
  void synchronize();

  struct State;

 private:
  const std::unique_ptr<State> state_;
};

}  // namespace gemm::sim
