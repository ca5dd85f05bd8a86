// Each feature of sm_90 in the simulator, under both schedules of its asynchronous copies, and on
// the GPU: against what the kernel should compute, and against each other, bit for bit. And
// mistakes in the use of these features, which the simulator must name.
#include "hopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "gpu.h"
#include "sim/inspect.h"
#include "tensor_map_check.h"

#ifdef HOPPER_ON_GPU
#include "harness/gpu/cuda_check.h"
#include "harness/gpu/gpu_device.h"
#endif

namespace gemm::hopper {

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

namespace {

using sim::AsyncSchedule;

// Launches by the other schedule than the default one.
struct Schedule {
  explicit Schedule(AsyncSchedule s) { sim::set_async_schedule(s); }
  ~Schedule() { sim::set_async_schedule(AsyncSchedule::lazy_copies); }
};

// "wrong from byte 12 on: 3 instead of 7"; empty when equal.
std::string difference(const Bytes& got, const Bytes& want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (got[i] != want[i])
      return "wrong from byte " + std::to_string(i) + " of " + std::to_string(want.size()) +
             " on: " + std::to_string(got[i]) + " instead of " + std::to_string(want[i]);
  return "";
}

template <class Run>
Bytes simulate(const Bytes& in, size_t out_bytes, const Run& run) {
  // As cudaMalloc aligns.
  const auto aligned = [](size_t bytes) {
    return std::unique_ptr<void, decltype(&std::free)>(
        std::aligned_alloc(256, (bytes + 255) / 256 * 256), &std::free);
  };
  const auto from = aligned(in.size()), to = aligned(out_bytes);
  std::memcpy(from.get(), in.data(), in.size());
  std::memset(to.get(), UNWRITTEN, out_bytes);
  run(from.get(), to.get());
  const auto* bytes = static_cast<const uint8_t*>(to.get());
  return Bytes(bytes, bytes + out_bytes);
}

class HopperSim : public testing::TestWithParam<Case> {};

TEST_P(HopperSim, LazyCopies) {
  const Case& c = GetParam();
  EXPECT_EQ(difference(simulate(c.in, c.expected.size(), c.run), c.expected), "");
}

TEST_P(HopperSim, EagerCopies) {
  const Schedule schedule(AsyncSchedule::eager_copies);
  const Case& c = GetParam();
  EXPECT_EQ(difference(simulate(c.in, c.expected.size(), c.run), c.expected), "");
}

// Runs the case in a trace, and adds what that finds to `findings`.
Bytes simulate_traced(const Case& c, std::vector<sim::Finding>& findings) {
  const auto traced = [&](const void* in, void* out) {
    const auto matrix = [](const char* name, const void* p, size_t bytes) {
      sim::Matrix m{.name = name, .allocation = p, .allocation_bytes = bytes, .first = p};
      m.rows = m.element = 1;
      m.cols = m.ld = static_cast<int64_t>(bytes);
      return m;
    };
    sim::TraceOptions options;
    options.matrices = {matrix("in", in, c.in.size()), matrix("out", out, c.expected.size())};
    options.matrices[1].writable = true;
    findings = sim::trace(options, [&] { c.run(in, out); }).findings;
  };
  return simulate(c.in, c.expected.size(), traced);
}

// The race and memory checks follow mbarriers, TMA and wgmma: they find nothing here ...
class HopperTraced : public testing::TestWithParam<Case> {};

TEST_P(HopperTraced, RaisesNoFalseAlarm) {
  for (const AsyncSchedule s : {AsyncSchedule::lazy_copies, AsyncSchedule::eager_copies}) {
    const Schedule schedule(s);
    std::vector<sim::Finding> findings;
    EXPECT_EQ(difference(simulate_traced(GetParam(), findings), GetParam().expected), "");
    for (const sim::Finding& f : findings) ADD_FAILURE() << f.check << ": " << f.what;
  }
}

// ... and the two mistakes of a pipeline of buffers under both schedules, though its readers are
// ordinary loads, and the result is right by luck under one of them.
TEST(HopperTracedPipeline, MistakesAreFoundUnderBothSchedules) {
  for (const Case& c : {pipeline_without_a_wait(), pipeline_released_early()})
    for (const AsyncSchedule s : {AsyncSchedule::lazy_copies, AsyncSchedule::eager_copies}) {
      const Schedule schedule(s);
      std::vector<sim::Finding> findings;
      simulate_traced(c, findings);
      bool named = false;  // both lines, not only the deadlock that may follow
      for (const sim::Finding& f : findings) {
        std::cout << f.check << ": " << f.what << "\n";
        named |= f.check == "race" || f.check == "missing mbarrier wait";
        EXPECT_THAT(f.what, testing::HasSubstr("hopper_kernels.cu:"));
      }
      EXPECT_TRUE(named) << c.name;
    }
}

// "hopper_kernels.cu:57": the first line there that ends in `mark`.
std::string marked_line(const std::string& mark) {
  std::ifstream file(HOPPER_KERNELS);
  std::string line;
  for (int n = 1; std::getline(file, line); ++n)
    if (line.ends_with(mark)) return "hopper_kernels.cu:" + std::to_string(n);
  return "no line marked " + mark;
}

// TMA reads until the wait for its store has returned: both lines are named, under both schedules,
// and whether or not the barriers that there are order the write with the wait.
TEST(HopperTracedStore, OverwritingItsTileEarlyIsARace) {
  for (const OverwrittenStore& bug : overwritten_stores())
    for (const AsyncSchedule s : {AsyncSchedule::lazy_copies, AsyncSchedule::eager_copies}) {
      const Schedule schedule(s);
      std::vector<sim::Finding> findings;
      simulate_traced(bug.run, findings);
      bool named = false;
      for (const sim::Finding& f : findings) {
        std::cout << bug.run.name << ": " << f.check << ": " << f.what << "\n";
        named |= f.check == "race" && f.what.find(marked_line(bug.mark)) != f.what.npos &&
                 f.what.find(marked_line("[store]")) != f.what.npos &&
                 f.what.find(bug.says) != f.what.npos;
      }
      EXPECT_TRUE(named) << bug.run.name;
    }
}

#ifdef HOPPER_ON_GPU
class HopperGpu : public testing::TestWithParam<Case> {};

TEST_P(HopperGpu, IsRightAndAgreesWithTheSimulator) {
  if (!why_no_gpu().empty()) GTEST_SKIP() << "no GPU: " << why_no_gpu();
  std::string why;
  const std::unique_ptr<Device> device = make_gpu_device(why);
  ASSERT_NE(device, nullptr) << why;
  if (device->sm() != 90) GTEST_SKIP() << device->name() << " is no sm_90";
  const Case& c = GetParam();
  const DeviceMemory in(*device, c.in.size()), out(*device, c.expected.size());
  GEMM_CUDA(cudaMemcpy(in.as<void>(), c.in.data(), c.in.size(), cudaMemcpyHostToDevice));
  GEMM_CUDA(cudaMemset(out.as<void>(), UNWRITTEN, c.expected.size()));
  c.run(in.as<void>(), out.as<void>());
  GEMM_CUDA(cudaGetLastError());
  GEMM_CUDA(cudaDeviceSynchronize());
  Bytes got(c.expected.size());
  device->download(got.data(), out.as<void>(), got.size());
  EXPECT_EQ(difference(got, c.expected), "");
  for (const Case& simulated : sim_cases()) {
    if (simulated.name != c.name) continue;
    EXPECT_EQ(difference(got, simulate(c.in, c.expected.size(), simulated.run)), "");
  }
}
#endif

// ------------------------------------------------------------------------------------------------

class HopperPlanted : public testing::TestWithParam<Planted> {};

// What a tensor map cannot describe.
TEST(HopperTensorMap, RefusesWithTheReason) {
  const auto error = [](int64_t rows, int64_t row_bytes, int box_rows, int box_cols, int span,
                        uintptr_t base = 256) -> std::string {
    try {
      check_tensor_map(reinterpret_cast<const void*>(base), rows, 64, row_bytes, 2, box_rows,
                       box_cols, span);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(error(10, 128, 64, 64, 128), "");
  EXPECT_EQ(error(0, 128, 64, 64, 128, 1), "");  // never loaded
  EXPECT_THAT(error(-1, 128, 64, 64, 128), HasSubstr("-1 x 64 elements"));
  EXPECT_THAT(error(10, 128, 257, 64, 128), HasSubstr("a box of 257 x 64 elements"));
  EXPECT_THAT(error(10, 128, 64, 4, 16), HasSubstr("a box 8 bytes wide"));
  EXPECT_THAT(error(10, 128, 64, 32, 128), HasSubstr("allowed: the swizzle's span of 128"));
  EXPECT_THAT(error(10, 64, 64, 64, 128), HasSubstr("rows of 128 bytes every 64"));
  EXPECT_THAT(error(10, 136, 64, 64, 128), HasSubstr("every 136 bytes"));
  EXPECT_THAT(error(10, 128, 64, 64, 128, 264), HasSubstr("multiples of 16"));
}

TEST_P(HopperPlanted, IsCaughtAndNamed) {
  const Planted& p = GetParam();
  if (!p.bug) {
    for (const AsyncSchedule s : {AsyncSchedule::lazy_copies, AsyncSchedule::eager_copies}) {
      const Schedule schedule(s);
      EXPECT_EQ(difference(simulate(p.in, p.expected.size(), p.run), p.expected), "");
    }
    return;
  }
  const Schedule schedule(p.schedule);
  try {
    simulate(p.in, p.expected.size(), p.run);
    ADD_FAILURE() << p.name << " was not caught";
  } catch (const sim::Error& e) {
    std::cout << p.name << ": " << e.what() << "\n";
    for (const std::string& part : p.message) EXPECT_THAT(e.what(), testing::HasSubstr(part));
  }
}

const auto named = [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (c == '-') c = 'm';
  return name;
};
INSTANTIATE_TEST_SUITE_P(Sim, HopperSim, testing::ValuesIn(sim_cases()), named);
INSTANTIATE_TEST_SUITE_P(Sim, HopperTraced, testing::ValuesIn(traced_cases()), named);
INSTANTIATE_TEST_SUITE_P(Sim, HopperPlanted, testing::ValuesIn(planted()), named);
#ifdef HOPPER_ON_GPU
INSTANTIATE_TEST_SUITE_P(Gpu, HopperGpu, testing::ValuesIn(gpu_cases()), named);
#endif

}  // namespace
}  // namespace gemm::hopper
