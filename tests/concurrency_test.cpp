// Rungs on several devices, and by several threads at once: nothing that a launch uses may belong
// to the process, to the first device, or to another thread's launch.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "extra/bad_rungs.h"
#include "gpu.h"
#include "harness/verify.h"
#include "launch_refused.h"
#include "sim/devices.h"
#include "sim/simulator.h"
#ifdef EXTRA_ON_GPU
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#endif

namespace gemm {
namespace {

// With what can be shared by mistake: a workspace (v13, v14w, v27), cuBLAS (v9), clusters (v27),
// another rung (v28).
constexpr const char* IDS[] = {"v8", "v9", "v13", "v14w", "v18", "v24", "v27", "v28"};

std::vector<const Rung*> chosen(const Device& device) {
  std::vector<const Rung*> found;
  for (const char* id : IDS)
    for (const DType dtype : {DType::f32, DType::f16})
      if (const Rung* r = find_rung(device.backend(), id, dtype);
          r != nullptr && unmet_need(*r, {.dtype = dtype}, device).empty())
        found.push_back(r);
  return found;
}

// Runs body(0), ..., body(n - 1) in threads that begin together.
void at_once(int n, const std::function<void(int)>& body) {
  std::barrier begin(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i)
    threads.emplace_back([&, i] {
      begin.arrive_and_wait();
      try {
        body(i);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "thread " << i << ": " << e.what();
      }
    });
}

// A rung's problem in a device's memory. The result that it has alone is what it has to have later,
// bit for bit; that it is right, a Verifier has said.
class Trial {
 public:
  Trial(Device& device, const Rung& rung, int M, int N, int K, uint64_t seed)
      : device_(device),
        rung_(rung),
        problem_{.dtype = rung.dtype, .M = M, .N = N, .K = K, .ld_pad = 8} {
    EXPECT_EQ(Verifier(device, problem_).verify(rung), "");
    for (const Operand operand : {Operand::A, Operand::B, Operand::C}) {
      void*& p = matrices_[static_cast<int>(operand)];
      p = device.allocate(layout(problem_, operand).bytes);
      device.fill(p, problem_, operand, Inputs::uniform, seed);
    }
    device.run(rung, call());
    alone_ = result();
    clear();
  }
  ~Trial() {
    for (void* p : matrices_) device_.release(p);
  }
  Trial(const Trial&) = delete;

  const Rung& rung() const { return rung_; }
  // The problem and its result again, in memory of these devices.
  GemmCall call_in(sim::Devices& devices, int on) const {
    void* copies[3] = {};
    for (const Operand operand : {Operand::A, Operand::B, Operand::C}) {
      const size_t bytes = layout(problem_, operand).bytes;
      void*& copy = copies[static_cast<int>(operand)];
      copy = devices.allocate(on, bytes, "ABC"[static_cast<int>(operand)] + std::string());
      if (operand != Operand::C)
        device_.download(copy, matrices_[static_cast<int>(operand)], bytes);
      else
        device_.fill(copy, problem_, Operand::C, Inputs::uniform, 1);
    }
    return make_call(problem_, copies[0], copies[1], copies[2]);
  }
  // `c`: element (0, 0), with its guards around.
  bool is_result(const void* c) const {
    const size_t guard = layout(problem_, Operand::C).first * element_size(problem_, Operand::C);
    return std::memcmp(static_cast<const char*>(c) - guard, alone_.data(), alone_.size()) == 0;
  }
  GemmCall call() const { return make_call(problem_, matrices_[0], matrices_[1], matrices_[2]); }
  void clear() { device_.fill(matrices_[2], problem_, Operand::C, Inputs::uniform, 1); }
  bool as_alone() const { return result() == alone_; }

 private:
  std::vector<char> result() const {
    std::vector<char> c(layout(problem_, Operand::C).bytes);
    device_.download(c.data(), matrices_[2], c.size());
    return c;
  }

  Device& device_;
  const Rung& rung_;
  Problem problem_;
  void* matrices_[3] = {};
  std::vector<char> alone_;
};

using Trials = std::deque<Trial>;  // which do not move

Trials trials(Device& device, int M, int N, int K, uint64_t seed) {
  Trials all;
  for (const Rung* rung : chosen(device)) all.emplace_back(device, *rung, M, N, K, seed);
  return all;
}

void run_rounds(Device& device, Trials& all, int rounds) {
  for (int round = 0; round < rounds; ++round)
    for (Trial& t : all) {
      t.clear();
      device.run(t.rung(), t.call());
      EXPECT_TRUE(t.as_alone()) << t.rung().name << " " << to_string(t.rung().dtype);
    }
}

TEST(ConcurrentSim, FourThreadsWithADeviceEach) {
  at_once(4, [](int i) {
    const std::unique_ptr<Device> device = make_sim_device();
    Trials all = trials(*device, 65 + 8 * i, 72, 136, i);
    ASSERT_EQ(all.size(), 11u);
    run_rounds(*device, all, 2);
  });
}

// Stands for two GPUs, where there are none.
TEST(ConcurrentSim, TwoDevicesInTurn) {
  const std::unique_ptr<Device> devices[] = {make_sim_device(), make_sim_device()};
  Trials all[] = {trials(*devices[0], 65, 72, 136, 1), trials(*devices[1], 70, 40, 200, 2)};
  for (size_t i = 0; i < all[0].size(); ++i)
    for (int d : {0, 1, 0}) {
      Trial& t = all[d][i];
      t.clear();
      devices[d]->run(t.rung(), t.call());
      EXPECT_TRUE(t.as_alone()) << t.rung().name;
    }
}

// Streams of several devices in the simulator: launches queue there, run side by side, and take
// and free their workspaces in the order of their stream.
TEST(ConcurrentSim, StreamsOfSeveralDevices) {
  const std::unique_ptr<Device> device = make_sim_device();
  const Trials all = trials(*device, 65, 72, 136, 1);
  for (const sim::AsyncSchedule schedule :
       {sim::AsyncSchedule::lazy_copies, sim::AsyncSchedule::eager_copies}) {
    sim::set_async_schedule(schedule);
    sim::Devices devices(2);
    std::vector<std::pair<const Trial*, const void*>> results;
    for (int s = 0; s < 3; ++s) {
      void* const stream = devices.stream(s % 2, std::to_string(s));
      for (const Trial& t : all) {
        GemmCall call = t.call_in(devices, s % 2);
        call.stream = stream;
        t.rung().launch(call);
        results.push_back({&t, call.C});
      }
    }
    for (const auto& [trial, c] : results) EXPECT_FALSE(trial->is_result(c));  // not yet
    devices.synchronize();
    for (const auto& [trial, c] : results) EXPECT_TRUE(trial->is_result(c)) << trial->rung().name;
  }
  sim::set_async_schedule(sim::AsyncSchedule::lazy_copies);
}

// Runs `bad`, which has to be refused with this message, and returns what it was refused with.
void expect_refused(Device& device, const Rung& bad, const std::string& message) {
  float c = 0;
  GemmCall call{.M = 1, .N = 1, .K = 0, .lda = 1, .ldb = 1, .C = &c, .ldc = 1};
  try {
    device.run(bad, call);
    ADD_FAILURE() << bad.name << " was launched";
  } catch (const LaunchError& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).rfind(bad.name, 0), 0u) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  }
}

// A thread's error is not the other's, and the device goes on.
TEST(ConcurrentSim, ARefusedLaunchBelongsToItsThread) {
  const std::unique_ptr<Device> first = make_sim_device();
  Trials all = trials(*first, 65, 72, 136, 1);
  at_once(2, [&](int i) {
    const std::unique_ptr<Device> device = make_sim_device();
    if (i == 0) return run_rounds(*device, all, 2);
    for (int n = 0; n < 50; ++n) {
      expect_refused(*device, sim_bad_rung("refused_threads"), "2048");
      expect_refused(*device, sim_bad_rung("refused_memory"), "1048576");
    }
  });
}

#ifdef EXTRA_ON_GPU

std::unique_ptr<Device> open_gpu(int ordinal) {
  std::string why;
  std::unique_ptr<Device> device = make_gpu_device(why, ordinal);
  if (device == nullptr) throw std::runtime_error(why);
  return device;
}

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  return count;
}

class GpuConcurrent : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << "no GPU: " << why_no_gpu();
    GEMM_CUDA(cudaSetDevice(0));
  }
};
class GpuPair : public GpuConcurrent {
 protected:
  void SetUp() override {
    GpuConcurrent::SetUp();
    if (!IsSkipped() && gpu_count() < 2) GTEST_SKIP() << "a second GPU is needed";
  }
};

// Queues all rungs, round after round, and looks at the results when all have run.
void queue_rounds(Device& device, Trials& all, int rounds) {
  for (Trial& t : all) t.clear();
  for (int round = 0; round < rounds; ++round)
    for (Trial& t : all) as_gpu(device).enqueue(t.rung(), t.call());
  as_gpu(device).synchronize();
  for (Trial& t : all)
    EXPECT_TRUE(t.as_alone()) << t.rung().name << " " << to_string(t.rung().dtype);
}

// A thread for each of these GPUs, with a stream of its own.
void run_threads(const std::vector<int>& ordinals) {
  at_once(static_cast<int>(ordinals.size()), [&](int i) {
    const std::unique_ptr<Device> device = open_gpu(ordinals[i]);
    Trials all = trials(*device, 520 + 8 * i, 648, 392, i);
    EXPECT_GE(all.size(), 5u);  // those that any GPU has
    run_rounds(*device, all, 10);
    for (int n = 0; n < 5; ++n) queue_rounds(*device, all, 20);
  });
}

TEST_F(GpuConcurrent, TwoThreadsTwoStreams) { run_threads({0, 0}); }
TEST_F(GpuConcurrent, FourThreadsFourStreams) { run_threads({0, 0, 0, 0}); }
TEST_F(GpuPair, AThreadForEach) { run_threads({0, 1}); }
TEST_F(GpuPair, TwoThreadsForEach) { run_threads({0, 1, 1, 0}); }

TEST_F(GpuPair, OneThreadTakesTurns) {
  const std::unique_ptr<Device> devices[] = {open_gpu(0), open_gpu(1)};
  Trials all[] = {trials(*devices[0], 520, 648, 392, 1), trials(*devices[1], 264, 648, 1000, 2)};
  for (int round = 0; round < 5; ++round)
    for (size_t i = 0; i < all[0].size(); ++i)
      for (int d : {0, 1, 0}) {
        Trial& t = all[d][i];
        t.clear();
        devices[d]->run(t.rung(), t.call());
        EXPECT_TRUE(t.as_alone()) << t.rung().name << " on GPU " << d;
      }
}

// A library's caller: the stream alone says where a rung runs.
TEST_F(GpuPair, TheStreamSaysWhichGpu) {
  const std::unique_ptr<Device> second = open_gpu(1);
  Trials all = trials(*second, 264, 648, 1000, 2);
  GEMM_CUDA(cudaSetDevice(0));
  for (Trial& t : all) {
    t.clear();
    GemmCall call = t.call();
    call.stream = as_gpu(*second).stream();
    t.rung().launch(call);
    int current = -1;
    GEMM_CUDA(cudaGetDevice(&current));
    EXPECT_EQ(current, 0) << t.rung().name << " left another GPU current";
    as_gpu(*second).synchronize();
    EXPECT_TRUE(t.as_alone()) << t.rung().name;
  }
}

// What a program has set up for its own cudaMallocAsync stays, and stays unused.
TEST_F(GpuConcurrent, TheDefaultMemoryPoolIsLeftAlone) {
  cudaMemPool_t pool = nullptr;
  GEMM_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  const auto attribute = [&](cudaMemPoolAttr which) {
    uint64_t value = 0;
    GEMM_CUDA(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
  };
  uint64_t own = 4096;  // as the program that calls may have set it
  GEMM_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &own));
  const std::unique_ptr<Device> device = open_gpu(0);
  Trials all = trials(*device, 264, 648, 1000, 2);
  uint64_t zero = 0;  // from here on nothing but rungs
  GEMM_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  const uint64_t before = attribute(cudaMemPoolAttrUsedMemHigh);
  run_rounds(*device, all, 1);
  EXPECT_EQ(attribute(cudaMemPoolAttrReleaseThreshold), own);
  EXPECT_EQ(attribute(cudaMemPoolAttrUsedMemHigh), before);
}

// A graph owns the workspaces of the rungs in it, and can be launched again.
TEST_F(GpuConcurrent, RungsAreCapturedInAGraph) {
  const std::unique_ptr<Device> device = open_gpu(0);
  Trials all = trials(*device, 264, 648, 1000, 2);
  const cudaStream_t stream = as_gpu(*device).stream();
  for (Trial& t : all) {
    SCOPED_TRACE(t.rung().name + " " + to_string(t.rung().dtype));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launchable = nullptr;
    GEMM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GemmCall call = t.call();
    call.stream = stream;
    EXPECT_NO_THROW(t.rung().launch(call));
    GEMM_CUDA(cudaStreamEndCapture(stream, &graph));
    GEMM_CUDA(cudaGraphInstantiate(&launchable, graph, 0));
    for (int n = 0; n < 3; ++n) {
      t.clear();
      GEMM_CUDA(cudaGraphLaunch(launchable, stream));
      as_gpu(*device).synchronize();
      EXPECT_TRUE(t.as_alone()) << "launch " << n;
    }
    GEMM_CUDA(cudaGraphExecDestroy(launchable));
    GEMM_CUDA(cudaGraphDestroy(graph));
  }
}

// Refused: told by status and exception, forgotten by CUDA, and the device goes on.
TEST_F(GpuConcurrent, ARefusedLaunchBelongsToItsThread) {
  const std::unique_ptr<Device> first = open_gpu(0);
  Trials all = trials(*first, 264, 648, 392, 1);
  at_once(2, [&](int i) {
    if (i == 0) return run_rounds(*first, all, 10);
    const std::unique_ptr<Device> device = open_gpu(0);
    for (int n = 0; n < 200; ++n) {
      expect_refused(*device, gpu_bad_rung("refused_threads"), "cudaLaunchKernelEx: ");
      expect_refused(*device, gpu_bad_rung("refused_memory"), "cudaFuncSetAttribute: ");
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }
  });
  try {
    gpu_bad_rung("refused_threads").launch({.M = 1, .N = 1, .lda = 1, .ldb = 1, .ldc = 1});
    ADD_FAILURE() << "launched";
  } catch (const LaunchRefused& e) {
    EXPECT_NE(e.status.code, 0);
    EXPECT_STREQ(e.status.call, "cudaLaunchKernelEx");
  }
}

// Runs in a process of its own, whose context is lost.
void fault(const char* name) {
  const std::unique_ptr<Device> device = open_gpu(0);
  void* const memory = device->allocate(256);
  GemmCall call{.M = 1, .N = 1, .K = 0, .lda = 1, .ldb = 1, .C = memory, .ldc = 1};
  try {
    device->run(gpu_bad_rung(name), call);
    std::fprintf(stderr, "no fault\n");
  } catch (const DeviceFault& e) {
    std::fprintf(stderr, "fault: %s\n", e.what());
    try {
      device->release(device->allocate(256));
      std::fprintf(stderr, "and goes on\n");
    } catch (const DeviceFault&) {
      std::_Exit(7);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "another error: %s\n", e.what());
  }
  std::_Exit(1);
}

TEST_F(GpuConcurrent, AFaultIsToldFromARefusedLaunch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* name : {"illegal_address", "misaligned", "trap"})
    EXPECT_EXIT(fault(name), testing::ExitedWithCode(7),
                "fault: " + std::string(name) + " f32, (launch|while running): ");
}

// NVML knows every GPU: what runs there must not be described by another one's clock.
TEST_F(GpuConcurrent, NvmlKnowsEachGpu) {
  for (int ordinal = 0; ordinal < gpu_count(); ++ordinal) {
    const std::unique_ptr<Device> device = open_gpu(ordinal);
    const Nvml& nvml = as_gpu(*device).nvml();
    if (nvml.driver_version().empty()) GTEST_SKIP() << "no NVML, or built without nvml.h";
    EXPECT_GT(nvml.sm_clock_mhz().value_or(0), 100);
    EXPECT_GE(nvml.max_sm_clock_mhz().value_or(0), nvml.sm_clock_mhz().value_or(0));
    EXPECT_GT(nvml.power_w().value_or(0), 1);
    EXPECT_LT(nvml.power_w().value_or(1e9), 2 * nvml.power_limit_w().value_or(0));
    EXPECT_GT(nvml.temperature_c().value_or(0), 1);
    EXPECT_TRUE(nvml.throttle_reasons().has_value());
    const Nvml::Counters begin = nvml.counters(), end = nvml.counters();
    if (const auto percent = nvml.memory_percent(begin, end)) {
      EXPECT_GE(*percent, 0);
      EXPECT_LE(*percent, 100);
    }
  }
}

TEST_F(GpuConcurrent, AGpuThatThereIsNot) {
  std::string why;
  try {
    make_gpu_device(why, gpu_count());
    ADD_FAILURE() << "there is one more GPU than CUDA counts";
  } catch (const std::out_of_range& e) {
    EXPECT_NE(std::string(e.what()).find("choose "), std::string::npos) << e.what();
  }
}

#endif

}  // namespace
}  // namespace gemm
