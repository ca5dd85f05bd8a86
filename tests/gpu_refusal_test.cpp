// GPUs and drivers that the library cannot compute with, without one.
#include "library/gpu_refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gemm::library {
namespace {

constexpr int GPUS[] = {75, 80, 86, 89, 90, 100, 120};

std::vector<int> served_by(const char* architectures) {
  std::vector<int> served;
  for (const int sm : GPUS)
    if (has_code(architectures, sm)) served.push_back(sm);
  return served;
}

TEST(RefusedDevice, CodeRunsOnTheGpusThatCudaSays) {
  using testing::ElementsAre;
  EXPECT_THAT(served_by("90a-real"), ElementsAre(90));
  EXPECT_THAT(served_by("90a"), ElementsAre(90));  // its PTX, too, is of 9.0 alone
  EXPECT_THAT(served_by("80-real"), ElementsAre(80, 86, 89));
  EXPECT_THAT(served_by("86-real"), ElementsAre(86, 89));
  EXPECT_THAT(served_by("75-real,90a-real"), ElementsAre(75, 90));
  EXPECT_THAT(served_by("80"), ElementsAre(80, 86, 89, 90, 100, 120));
  EXPECT_THAT(served_by("75-real,90-virtual"), ElementsAre(75, 90, 100, 120));
  EXPECT_THAT(served_by("100f-real"), ElementsAre(100));
  EXPECT_THAT(served_by("120a-real"), ElementsAre(120));
  EXPECT_THAT(served_by(""), ElementsAre());
  EXPECT_THAT(served_by("native"), testing::ElementsAreArray(GPUS));
}

TEST(RefusedDevice, OfAGpuSaysWhatToBuild) {
  EXPECT_EQ(
      why_no_code("NVIDIA T4", "90a-real", 75),
      "NVIDIA T4 (sm_75): this library's kernels were built for 90a-real alone; "
      "-DCMAKE_CUDA_ARCHITECTURES=75-real builds it for this GPU, and GEMM_SIMULATOR needs none");
  EXPECT_THAT(
      why_no_code("B", "80-real,90a-real", 120),
      testing::HasSubstr("for 80-real,90a-real alone; -DCMAKE_CUDA_ARCHITECTURES=120a-real "));
}

TEST(RefusedDevice, OfADriverSaysWhichIsNeeded) {
  EXPECT_EQ(why_not_driver(0, 13000), "no NVIDIA driver");
  EXPECT_EQ(why_not_driver(12020, 13010),
            "NVIDIA's driver is too old: it has CUDA 12.2, and this library needs 13.0 or newer");
  for (const int driver : {13000, 13010, 13020, 14000})
    EXPECT_EQ(why_not_driver(driver, 13010), "");
}

}  // namespace
}  // namespace gemm::library
