// The plans that a thread of the library keeps: found again, bounded, the oldest replaced.
#include "library/plan_cache.h"

#include <gtest/gtest.h>

#include <memory>

namespace gemm::library {
namespace {

PreparedPlan plan_for(int n) {
  return {.key = {.M = 1, .N = n, .K = 1}, .plan = {.sms = n}, .workspace = size_t(n)};
}

TEST(PlanCache, FindsWhatWasPutIn) {
  const auto cache = std::make_unique<PlanCache>();
  EXPECT_EQ(cache->find(plan_for(1).key), nullptr);
  for (int n = 1; n <= 3; ++n) cache->insert(plan_for(n));
  for (int n = 1; n <= 3; ++n) {
    const PreparedPlan* found = cache->find(plan_for(n).key);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->plan.sms, n);
    EXPECT_EQ(found->workspace, size_t(n));
  }
}

TEST(PlanCache, EveryPartOfTheKeyCounts) {
  const auto cache = std::make_unique<PlanCache>();
  cache->insert({.key = {}, .plan = {}});
  const auto differs = [&](auto PlanKey::*part) {
    PlanKey key;
    key.*part = 2;
    return cache->find(key) == nullptr;
  };
  EXPECT_NE(cache->find({}), nullptr);
  EXPECT_TRUE(differs(&PlanKey::lda) && differs(&PlanKey::ldb) && differs(&PlanKey::ldc));
  EXPECT_TRUE(differs(&PlanKey::M) && differs(&PlanKey::N) && differs(&PlanKey::K));
  EXPECT_TRUE(differs(&PlanKey::device) && differs(&PlanKey::dtype));
  EXPECT_TRUE(differs(&PlanKey::batch) && differs(&PlanKey::grouped) &&
              differs(&PlanKey::stride_a));
  EXPECT_TRUE(differs(&PlanKey::stride_b) && differs(&PlanKey::stride_c));
  EXPECT_TRUE(differs(&PlanKey::operands) && differs(&PlanKey::activation));
  EXPECT_TRUE(differs(&PlanKey::op_a) && differs(&PlanKey::op_b));
  EXPECT_TRUE(differs(&PlanKey::align_a) && differs(&PlanKey::align_b) &&
              differs(&PlanKey::align_c));
}

TEST(PlanCache, IsBoundedAndKeepsTheLatest) {
  const auto cache = std::make_unique<PlanCache>();
  for (int n = 1; n <= 10000; ++n) {
    cache->insert(plan_for(n));
    for (int last = std::max(1, n - PlanCache::WAYS + 1); last <= n; ++last)
      ASSERT_NE(cache->find(plan_for(last).key), nullptr) << last << " of " << n;
  }
  EXPECT_EQ(cache->size(), PlanCache::CAPACITY);
  EXPECT_EQ(cache->find(plan_for(1).key), nullptr);
}

// Shapes that a program has at once spread over the sets: 64 of them all but fit.
TEST(PlanCache, SpreadsItsKeys) {
  const auto cache = std::make_unique<PlanCache>();
  for (int n = 1; n <= 64; ++n) cache->insert(plan_for(n * 64));
  EXPECT_GE(cache->size(), 56);
}

}  // namespace
}  // namespace gemm::library
