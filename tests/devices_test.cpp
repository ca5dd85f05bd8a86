// Several simulated devices: streams, copies, events and kernels that run side by side and signal
// each other; deadlocks that are named; mistakes planted in such exchanges, found at their lines.
#include "sim/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "device/ptx/system.cuh"
#include "devices_kernels.h"
#include "plan/arch.h"
#include "sim/inspect.h"
#include "sim_launch.h"

namespace gemm {

// What GoogleTest prints for a test's parameter.
namespace devices {
void PrintTo(const Scenario& s, std::ostream* out) { *out << s.name; }
}  // namespace devices

namespace {

using devices::Scenario;
using sim::AsyncSchedule;
using testing::HasSubstr;

struct Schedule {
  explicit Schedule(AsyncSchedule s) { sim::set_async_schedule(s); }
  ~Schedule() { sim::set_async_schedule(AsyncSchedule::lazy_copies); }
};
constexpr AsyncSchedule SCHEDULES[] = {AsyncSchedule::lazy_copies, AsyncSchedule::eager_copies};

// "devices_kernels.cu:57", of the lines that are marked "[mark]".
std::set<std::string> marked(const std::string& mark) {
  std::ifstream file(DEVICES_KERNELS);
  std::set<std::string> lines;
  std::string text;
  for (int n = 1; std::getline(file, text); ++n)
    if (text.find("//") != text.npos && text.find("[" + mark + "]") != text.npos)
      lines.insert("devices_kernels.cu:" + std::to_string(n));
  return lines;
}

std::string said_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const sim::Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "";
}

// ---------------------------------------------------------------------------- streams and copies

__global__ void add(float* to, const float* a, const float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = a[i] + b[i];
}

__global__ void throws(uint32_t* flag) {
  if (threadIdx.x == 0) signal_wait(flag, 1);
  __syncthreads();
  if (threadIdx.x == 0) __shfl_sync(~0u, 1, 0);  // and the others never
}

__global__ void waits(const uint32_t* flag) { signal_wait(flag, 1); }

__global__ void count_up(uint32_t* counter, uint32_t from) {
  if (threadIdx.x != 0) return;
  for (uint32_t i = 1; i <= 3; ++i) signal_add(counter, 1);
  signal_wait(counter, from + 3);
}

TEST(Devices, WorkRunsInTheOrderOfItsStream) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    sim::Devices devices(2);
    constexpr int N = 100;
    const auto floats = [&](int d, const char* name) {
      return static_cast<float*>(devices.allocate(d, N * sizeof(float), name));
    };
    float *a = floats(0, "a"), *b = floats(1, "b"), *sum = floats(1, "sum");
    void* const stream = devices.stream(1, "main");
    for (int i = 0; i < N; ++i) a[i] = float(i);
    const sim::Copy copy{b, 40, a, 40, 40, 10};
    devices.copy(stream, copy);
    launch(add, 2, 64, {}, stream, sum, static_cast<const float*>(a), static_cast<const float*>(b),
           N);
    devices.call(stream, [&] {
      for (int i = 0; i < N; ++i) a[i] = sum[i];
    });
    devices.copy(stream, copy);
    launch(add, 2, 64, {}, stream, sum, static_cast<const float*>(a), static_cast<const float*>(b),
           N);
    EXPECT_NE(sum[1], 4);  // not yet
    devices.synchronize();
    for (int i = 0; i < N; ++i) ASSERT_EQ(sum[i], 4 * i);
  }
}

TEST(Devices, EventsOrderStreams) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    sim::Devices devices(3);
    std::string order;
    void* const a = devices.stream(2, "a");
    void* const b = devices.stream(1, "b");
    const auto say = [&](void* stream, char c) {
      devices.call(stream, [&order, c] { order += c; });
    };
    say(a, '1');
    const sim::Event first = devices.record(a);
    devices.wait(b, first);
    say(b, '2');
    devices.wait(a, devices.record(b));
    say(a, '3');
    devices.synchronize();
    devices.wait(b, first);  // of before: it has happened
    say(b, '4');
    devices.synchronize();
    EXPECT_EQ(order, "1234");
  }
}

TEST(Devices, CopiesComeLateOrEarly) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    sim::Devices devices(1);
    int from = 1, to = 0, seen = -1;
    void* const a = devices.stream(0, "a");
    void* const b = devices.stream(0, "b");
    devices.call(a, [&] { seen = to; });
    devices.copy(b, {&to, 4, &from, 4, 4, 1});
    devices.synchronize();
    EXPECT_EQ(seen, s == AsyncSchedule::lazy_copies ? 0 : 1);
    EXPECT_EQ(to, 1);
  }
}

TEST(Devices, CountersMayWrapAround) {
  sim::Devices devices(1);
  auto* const counter = static_cast<uint32_t*>(devices.allocate(0, 8, "counter"));
  devices.set_bytes(counter, 0xff, 8);  // -1
  launch(count_up, 1, 32, {}, devices.stream(0, "main"), counter, ~0u);
  devices.synchronize();
  EXPECT_EQ(*counter, 2u);
}

TEST(Devices, WorkspacesAreFreedInTheOrderOfTheStream) {
  sim::Devices devices(1);
  void* const stream = devices.stream(0, "main");
  auto* const sum = static_cast<float*>(devices.allocate(0, 64 * sizeof(float), "sum"));
  {
    const Workspace zeros(64 * sizeof(float), stream);
    zeros.zero();
    launch(add, 1, 64, {}, stream, sum, static_cast<const float*>(zeros.as<float>()),
           static_cast<const float*>(zeros.as<float>()), 64);
  }
  devices.synchronize();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sum[i], 0);
}

TEST(Devices, MemoryIsFilledAndReleased) {
  sim::Devices devices(1);
  auto* const p = static_cast<uint32_t*>(devices.allocate(0, 1000, "p"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
  EXPECT_EQ(p[249], ~0u);
  devices.set_bytes(p + 1, 0, 4);
  EXPECT_EQ(p[0], ~0u);
  EXPECT_EQ(p[1], 0u);
  int seen = -1, from = 5;
  void* const stream = devices.stream(0, "main");
  devices.copy(stream, {p, 4, &from, 4, 4, 1});
  devices.call(stream, [&, p] { seen = int(*p); });
  devices.release(p);  // when that has run
  devices.synchronize();
  EXPECT_EQ(seen, 5);
  devices.release(nullptr);
}

// --------------------------------------------------------------------------------------- mistakes

TEST(Devices, BadArgumentsAreRefused) {
  EXPECT_EQ(said_by([] { sim::Devices(0); }), "0 devices; allowed: 1 to 16");
  EXPECT_EQ(said_by([] { sim::Devices(17); }), "17 devices; allowed: 1 to 16");
  sim::Devices devices(2);
  EXPECT_EQ(said_by([&] { devices.stream(2, "x"); }), "device 2; allowed: 0 to 1");
  EXPECT_EQ(said_by([&] { devices.allocate(-1, 4, "x"); }), "device -1; allowed: 0 to 1");
  void* const stream = devices.stream(0, "main");
  int other = 0;
  EXPECT_THAT(said_by([&] { devices.record(&other); }), HasSubstr("is no stream"));
  EXPECT_THAT(said_by([&] { devices.wait(stream, {}); }), HasSubstr("there is no event -1"));
  char* const p = static_cast<char*>(devices.allocate(1, 100, "p"));
  EXPECT_THAT(said_by([&] {
                devices.copy(stream, {p, 50, &other, 60, 50, 3});
              }),
              HasSubstr("writes 50 bytes past the end of p of device 1"));
  EXPECT_THAT(said_by([&] {
                devices.copy(stream, {p, 5, p, 60, 50, 2});
              }),
              HasSubstr("2 rows of 50 bytes, 5 and 60 bytes apart"));
  EXPECT_THAT(said_by([&] { devices.write_value(stream, reinterpret_cast<uint32_t*>(&other), 1); }),
              HasSubstr("is no flag in memory of these devices"));
  EXPECT_THAT(said_by([&] { devices.wait_value(stream, reinterpret_cast<uint32_t*>(p + 1), 1); }),
              HasSubstr("is no flag in memory of these devices"));
  EXPECT_THAT(said_by([&] { devices.set_bytes(p + 1, 0, 100); }), HasSubstr("in no allocation"));
  EXPECT_THAT(said_by([&] { launch(add, 1, 2000, {}, stream, nullptr, nullptr, nullptr, 0); }),
              HasSubstr("a block of 2000 x 1 x 1 threads"));
  devices.call(stream, [] {});
  EXPECT_THAT(said_by([&] { devices.set_bytes(p, 0, 1); }), HasSubstr("while work is queued"));
  devices.call(stream, [&] { devices.synchronize(); });
  EXPECT_THAT(said_by([&] { devices.synchronize(); }), HasSubstr("called from queued work"));
  devices.synchronize();  // the rest was dropped
}

// A stream waits for another one's flag, which may wrap around; nobody raises it: a deadlock.
TEST(Devices, StreamsWaitForFlags) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    sim::Devices devices(2);
    auto* const flag = static_cast<uint32_t*>(devices.allocate(1, 8, "flag"));
    flag[1] = 0xfffffffe;
    std::string order;
    void* const a = devices.stream(0, "a");
    void* const b = devices.stream(1, "b");
    devices.wait_value(b, flag + 1, 1);
    devices.call(b, [&] { order += 'b'; });
    devices.call(a, [&] { order += 'a'; });
    devices.write_value(a, flag + 1, 2);
    devices.synchronize();
    EXPECT_EQ(order, "ab");
    devices.wait_value(b, flag + 1, 3);
    devices.call(b, [&] { order += '!'; });
    const std::string error = said_by([&] { devices.synchronize(); });
    EXPECT_THAT(error, HasSubstr("deadlock: wait_value 2 of stream 'b' of device 1"));
    EXPECT_THAT(error, HasSubstr("waits for flag[1] of device 1 to be at least 3, which is 2"));
    EXPECT_EQ(order, "ab");
  }
}

// The failure of one block, though others wait for it; what was queued is dropped, and all goes on.
TEST(Devices, FailureEndsEverything) {
  sim::Devices devices(2);
  auto* const flag = static_cast<uint32_t*>(devices.allocate(1, 8, "flag"));
  devices.set_bytes(flag, 0, 8);
  void* const a = devices.stream(0, "a");
  void* const b = devices.stream(1, "b");
  for (int i = 0; i < 2; ++i) {
    bool ran = false;
    launch(waits, 6, 32, {}, a, static_cast<const uint32_t*>(flag + 1));
    devices.call(a, [&] { ran = true; });
    launch(throws, 1, 64, {}, b, flag);
    devices.write_value(devices.stream(1, "c"), flag, 1);
    const std::string error = said_by([&] { devices.synchronize(); });
    EXPECT_THAT(error, testing::StartsWith("device 1, block 0: "));
    EXPECT_THAT(error, HasSubstr("deadlock: thread 0"));
    EXPECT_THAT(error, HasSubstr("devices_test.cpp:"));
    EXPECT_FALSE(ran);
    devices.set_bytes(flag, 0, 8);
  }
  devices.call(a, [] { throw std::runtime_error("of the host"); });
  EXPECT_THROW(devices.synchronize(), std::runtime_error);
  devices.synchronize();
}

TEST(Devices, WhatHasNotRunIsAbandoned) {
  sim::Devices devices(1);
  void* const stream = devices.stream(0, "main");
  auto* const flag = static_cast<uint32_t*>(devices.allocate(0, 4, "flag"));
  const Workspace workspace(16, stream);
  launch(waits, 1, 32, {}, stream, static_cast<const uint32_t*>(flag));
  devices.call(stream, [] { FAIL(); });
}

TEST(Devices, WaitsOutsideOfThemAreRefused) {
  uint32_t flag = 0;
  EXPECT_THAT(error_of(waits, 1, 32, static_cast<const uint32_t*>(&flag)),
              HasSubstr("signal_wait (devices_test.cpp:"));
  flag = 1;
  EXPECT_EQ(error_of(waits, 1, 32, static_cast<const uint32_t*>(&flag)), "");
}

TEST(Devices, HaveAsManySmsAsThePlansTakeThemToHave) {
  EXPECT_EQ(sim::Devices::SMS, simulated_arch().ctas);
}

// -------------------------------------------------------------------------------------- scenarios

class Right : public testing::TestWithParam<Scenario> {};

TEST_P(Right, IsRightOnAnyNumberOfDevices) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    for (const int devices : {2, 4, 8}) {
      SCOPED_TRACE(devices);
      EXPECT_EQ(GetParam().run(devices), "");
    }
  }
}

class Deadlock : public testing::TestWithParam<Scenario> {};

TEST_P(Deadlock, NamesWhoWaits) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    const std::string error = said_by([&] { GetParam().run(2); });
    for (const std::string& words : GetParam().says) EXPECT_THAT(error, HasSubstr(words));
    for (const std::string& line : marked(GetParam().mark)) EXPECT_THAT(error, HasSubstr(line));
  }
}

std::string all_of(const std::vector<sim::Finding>& findings) {
  std::string text;
  for (const sim::Finding& f : findings) text += f.check + ": " + f.what + "\n";
  return text;
}

class RightTraced : public testing::TestWithParam<Scenario> {};

TEST_P(RightTraced, RaisesNoFalseAlarm) {
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    for (const int devices : {2, 4, 8}) {
      SCOPED_TRACE(devices);
      std::string wrong = "did not run";
      const sim::Trace trace = sim::trace({}, [&] { wrong = GetParam().run(devices); });
      EXPECT_EQ(wrong, "");
      EXPECT_EQ(all_of(trace.findings), "");
      EXPECT_EQ(trace.launches.size() % devices, 0u);
    }
  }
}

class DeadlockTraced : public testing::TestWithParam<Scenario> {};

TEST_P(DeadlockTraced, IsAFinding) {
  const sim::Trace trace = sim::trace({}, [&] { GetParam().run(2); });
  ASSERT_EQ(trace.findings.size(), 1u) << all_of(trace.findings);
  EXPECT_EQ(trace.findings[0].check, GetParam().check);
  for (const std::string& words : GetParam().says)
    EXPECT_THAT(trace.findings[0].what, HasSubstr(words));
  for (const std::string& line : marked(GetParam().mark))
    EXPECT_THAT(trace.findings[0].what, HasSubstr(line));
}

class PlantedBug : public testing::TestWithParam<Scenario> {};

// Under one of the two schedules at least the results are right, so only the check tells. Each finds
// it, at each number of devices, always in the same words, and nothing at other lines.
TEST_P(PlantedBug, IsFoundAtItsLine) {
  const Scenario& bug = GetParam();
  for (const AsyncSchedule s : SCHEDULES) {
    const Schedule schedule(s);
    for (const int devices : {2, 4}) {
      const auto run = [&] { return sim::trace({}, [&] { bug.run(devices); }).findings; };
      const std::vector<sim::Finding> findings = run();
      EXPECT_EQ(all_of(run()), all_of(findings));
      const std::set<std::string> lines = marked(bug.mark);
      bool found = false;
      for (const sim::Finding& f : findings) {
        EXPECT_TRUE(lines.contains(place(f.line))) << f.what;
        EXPECT_TRUE(f.other.line == 0 || lines.contains(place(f.other))) << f.what;
        bool all = f.check == bug.check;
        for (const std::string& words : bug.says) all = all && f.what.find(words) != f.what.npos;
        found = found || all;
      }
      EXPECT_TRUE(found) << all_of(findings);
    }
  }
}

// Memory that the trace names is watched as well.
TEST(Devices, MatricesOfATraceAreWatched) {
  std::vector<float> all(2048);
  const size_t bytes = all.size() * sizeof(float);
  memset(all.data(), 0xff, bytes);
  sim::Matrix m{.name = "A of rank 0", .allocation = all.data(), .allocation_bytes = bytes};
  m.first = all.data();
  m.rows = m.element = 1;
  m.cols = m.ld = static_cast<int64_t>(bytes);
  sim::TraceOptions options;
  options.matrices = {m};
  const sim::Trace trace = sim::trace(options, [&] { devices::read_before_it_comes(all.data()); });
  EXPECT_THAT(all_of(trace.findings), HasSubstr("of A of rank 0, which nobody has written"));
  EXPECT_THAT(all_of(trace.findings), HasSubstr(*marked("no_wait").begin()));
}

const auto named = [](const testing::TestParamInfo<Scenario>& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Sim, Right, testing::ValuesIn(devices::right()), named);
INSTANTIATE_TEST_SUITE_P(Sim, Deadlock, testing::ValuesIn(devices::deadlocks()), named);
INSTANTIATE_TEST_SUITE_P(Sim, RightTraced, testing::ValuesIn(devices::right_traced()), named);
INSTANTIATE_TEST_SUITE_P(Sim, PlantedBug, testing::ValuesIn(devices::planted()), named);
INSTANTIATE_TEST_SUITE_P(Sim, DeadlockTraced, testing::ValuesIn(devices::deadlocks_traced()),
                         named);

}  // namespace
}  // namespace gemm
