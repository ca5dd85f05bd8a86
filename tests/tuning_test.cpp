// The tuning cache: buckets, what is found, and what becomes of the file.
#include "harness/tuning.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/device.h"
#include "harness/verify.h"

namespace gemm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
constexpr char GPU[] = "some GPU";

Problem cube(int n) { return {.M = n, .N = n, .K = n}; }
TunedProblem tuned(int n, std::vector<TimedVariant> variants) {
  return {GPU, "v99_x", cube(n), std::move(variants), "r"};
}

// In a folder of this process: tests of another checkout may run at the same time.
struct File {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tuning_test" + std::to_string(getpid()));
  std::string name = (folder / "new" / "tuning.json").string();
  File() { std::filesystem::remove_all(folder); }
  ~File() { std::filesystem::remove_all(folder); }
};

// Three variants, of which the last takes multiples of 2 only; by itself it takes the first.
Rung rung() {
  const auto none = [](const GemmCall&) {};
  const auto any = [](const GemmCall&) { return true; };
  Rung r;
  r.name = "v99_x";
  r.variants = {{"a", none, any}, {"b", none, any}, {"even", none, [](const GemmCall& c) {
                                                       return c.M % 2 == 0;
                                                     }}};
  r.plan = [](const Rung&, const GemmCall&, const Arch&, int variant) {
    return Plan{.variant = std::max(variant, 0)};
  };
  r.explain = [](const GemmCall&, const Plan& p) { return std::to_string(p.sms) + " SMs"; };
  return r;
}

TEST(Tuning, Buckets) {
  EXPECT_EQ(bucket(cube(4096)), "4096x4096x4096");
  EXPECT_EQ(bucket(cube(2900)), "4096x4096x4096");
  EXPECT_EQ(bucket(cube(5792)), "4096x4096x4096");
  EXPECT_EQ(bucket(cube(5796)), "8192x8192x8192");
  EXPECT_EQ(bucket(cube(4097)), "4096x4096x4096 unaligned");
  EXPECT_EQ(bucket({.dtype = DType::f16, .M = 1, .N = 1004, .K = 0}), "1x1024x0 unaligned");
  EXPECT_EQ(bucket({.M = 1, .N = 1004, .K = 0}), "1x1024x0");
}

TEST(Tuning, TheShapeItselfOverridesItsBucket) {
  TuningCache cache;
  cache.put(tuned(4096, {{"a", 50}}));
  cache.put(tuned(5000, {{"b", 50}}));
  EXPECT_EQ(cache.find(GPU, "v99_x", cube(4096))->variants[0].name, "a");
  EXPECT_EQ(cache.find(GPU, "v99_x", cube(4800))->variants[0].name, "b");
  EXPECT_EQ(cache.find(GPU, "v99_x", cube(2048)), nullptr);
  EXPECT_EQ(cache.find("another", "v99_x", cube(4096)), nullptr);
  EXPECT_EQ(cache.find(GPU, "v98_x", cube(4096)), nullptr);
  EXPECT_TRUE(cache.holds(GPU, "v99_x", cube(5000)));
  EXPECT_FALSE(cache.holds(GPU, "v99_x", cube(4800))) << "of the bucket, but not measured";
  EXPECT_FALSE(cache.holds("another", "v99_x", cube(4096)));
  Problem other = cube(4096);
  other.op_b = Op::T;
  EXPECT_EQ(cache.find(GPU, "v99_x", other), nullptr);
  EXPECT_FALSE(cache.holds(GPU, "v99_x", other));
}

TEST(Tuning, TheFastestThatExistsAndFitsRuns) {
  TuningCache cache;
  const Rung r = rung();
  cache.put(tuned(4096, {{"gone", 60}, {"even", 55}, {"b", 50}, {"a", 40}}));
  const ExplainedPlan there = choose_plan(r, cube(4096), &cache, GPU, simulated_arch());
  EXPECT_EQ(there.variant, 2);
  EXPECT_EQ(there.why, "measured on this GPU at 4096x4096x4096: 55.00 TFLOPS, b 50.00, a 40.00");
  const ExplainedPlan near =
      choose_plan(r, {.M = 4095, .N = 4096, .K = 4096}, &cache, GPU, simulated_arch());
  EXPECT_EQ(near.variant, 1);
  EXPECT_THAT(near.why, HasSubstr("which stands for 4096x4096x4096: 50.00 TFLOPS, a 40.00"));
  const ExplainedPlan none = choose_plan(r, cube(64), &cache, GPU, simulated_arch());
  EXPECT_EQ(none.variant, 0);
  EXPECT_EQ(none.why, "132 SMs");
}

TEST(Tuning, ARungThatChoosesWhatDoesNotFitIsWrong) {
  Rung r = rung();
  r.plan = [](const Rung&, const GemmCall&, const Arch&, int) { return Plan{.variant = 2}; };
  EXPECT_THROW(choose_plan(r, cube(3), nullptr, GPU, simulated_arch()), std::logic_error);
}

// The rung before computes what a rung does not take: under no variant of its own.
TEST(Tuning, AVariantIsOfTheRungThatRuns) {
  const Problem odd{.dtype = DType::f16, .M = 65, .N = 33, .K = 47};
  Problem scaled = odd;  // left by v17u, which has no sums in float
  scaled.operands.scale_rows = true;
  const std::unique_ptr<Device> device = make_sim_device();
  int left = 0;
  for (const Rung* rung : rungs(Backend::sim)) {
    if (rung->variants.empty() || rung->dtype != odd.dtype) continue;
    const ExplainedPlan own = choose_plan(*rung, scaled, nullptr, GPU, simulated_arch());
    if (!rung->dispatches && own.plan.rung != rung) {
      ++left;
      EXPECT_EQ(own.variant, ANY_VARIANT);
      EXPECT_THAT(own.name, StartsWith(own.plan.rung->id));
      EXPECT_EQ(as_planned(*rung, own).variants.size(), rung->variants.size());
    }
    for (size_t i = 0; i < rung->variants.size(); ++i) {
      if (!unmet_need(with_variant(*rung, int(i)), odd, *device).empty()) continue;
      const ExplainedPlan planned = plan_variant(*rung, odd, simulated_arch(), int(i), "");
      const Rung* const wanted = rung->dispatches ? rung->candidates[i] : rung;
      EXPECT_EQ(planned.plan.rung, wanted) << rung->name << " " << planned.name;
      EXPECT_TRUE(rung->dispatches || planned.plan.variant == int(i)) << rung->name;
    }
  }
  EXPECT_GT(left, 0);
  // What was measured of a variant that does not take the problem says nothing.
  const Rung& v27 = *find_rung(Backend::sim, "v27", DType::f16);
  int unfit = 0;
  while (unmet_need(with_variant(v27, unfit), odd, *device).empty()) ++unfit;
  TuningCache cache;
  cache.put({GPU, v27.name, odd, {{v27.variants[unfit].name, 9}}, "r"});
  EXPECT_EQ(choose_plan(v27, odd, &cache, GPU, simulated_arch()).variant,
            choose_plan(v27, odd, nullptr, GPU, simulated_arch()).variant);
}

TEST(Tuning, FilesAreMerged) {
  const File file;
  EXPECT_EQ(TuningCache::read(file.name).size(), 0u);
  TuningCache first, second;
  first.put(tuned(512, {{"a", 1}}));
  first.put(tuned(1024, {{"a", 2.5}}));
  first.write(file.name);
  second.put(tuned(1024, {{"b", 3}, {"a", 2}}));
  second.write(file.name);
  const TuningCache both = TuningCache::read(file.name);
  EXPECT_EQ(both.size(), 2u);
  EXPECT_EQ(both.find(GPU, "v99_x", cube(512))->variants[0].tflops, 1);
  ASSERT_EQ(both.find(GPU, "v99_x", cube(1024))->variants.size(), 2u);
  EXPECT_EQ(both.find(GPU, "v99_x", cube(1024))->variants[0].name, "b");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file.folder / "new"), {}), 2)
      << "nothing but the file and its lock is left";
}

TEST(Tuning, WritersLoseNothing) {
  constexpr int WRITERS = 8, EACH = 6;
  const File file;
  std::vector<pid_t> writers;
  for (int w = 0; w < WRITERS; ++w) {
    writers.push_back(fork());
    if (writers.back() != 0) continue;
    for (int i = 0; i < EACH; ++i) {
      TuningCache one;
      one.put(tuned(1 + w * EACH + i, {{"a", 1}}));
      one.write(file.name);
    }
    _exit(0);
  }
  for (const pid_t writer : writers) {
    int status = -1;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(TuningCache::read(file.name).size(), size_t{WRITERS * EACH});
}

TEST(Tuning, ABrokenFileThatNobodyNamedIsNoted) {
  const File file;
  std::filesystem::create_directories(file.folder / "new");
  std::ofstream(file.name) << "{";
  std::string note;
  EXPECT_EQ(TuningCache::read_unnamed(file.name, note).size(), 0u);
  EXPECT_THAT(note, HasSubstr(file.name));
  EXPECT_THAT(note, HasSubstr("going on"));
  EXPECT_EQ(note.find('\n'), std::string::npos);
}

TEST(Tuning, BadFilesAreToldInOneLine) {
  const File file;
  std::filesystem::create_directories(file.folder / "new");
  for (const char* text : {"", "{", "[]", "{\"format\": 2, \"measured\": []}",
                           "{\"format\": 1, \"measured\": [{\"gpu\": 3}]}"}) {
    std::ofstream(file.name) << text;
    try {
      TuningCache::read(file.name);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& e) {
      EXPECT_THAT(e.what(), HasSubstr(file.name));
      EXPECT_THAT(e.what(), HasSubstr("--no-tune-cache"));
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_THROW(TuningCache().write("/proc/no/such/tuning.json"), std::runtime_error);
}

}  // namespace
}  // namespace gemm
