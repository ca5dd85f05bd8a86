// Sharded products whose caller has one rank: in the simulator, where each rank is a thread. They
// meet through host memory, as processes do through their launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gemm/gemm.h"
#include "gemm/gemm.hpp"
#include "meeting.h"

namespace {

using ::testing::HasSubstr;

// What became of a call, and why.
struct Told {
  gemm_status status = GEMM_OK;
  std::string why;
};
Told told(gemm_status status) { return {status, status == GEMM_OK ? "" : gemm_last_error()}; }

// One rank as the C interface takes it.
struct Member {
  Meeting& meeting;
  int rank;
  gemm_sharded* handle = nullptr;

  Told create(const gemm_sharded_problem& problem, const char* rung = nullptr, int limit = 5) {
    gemm_rank r = GEMM_RANK_DEFAULT;
    r.rank = rank;
    r.device = GEMM_SIMULATOR;
    r.time_limit = limit;
    r.context = this;
    r.exchange = [](void* p, const void* mine, void* all, size_t bytes) {
      Member& self = *static_cast<Member*>(p);
      return self.meeting.all_gather(self.rank, mine, all, bytes) ? 0 : 1;
    };
    return told(gemm_sharded_create_rank(&problem, &r, rung, &handle));
  }
  ~Member() { EXPECT_EQ(gemm_sharded_destroy(handle), GEMM_OK) << gemm_last_error(); }
};

// Calls work(member) in a thread for each rank.
template <class Work>
void with_ranks(int ranks, Work&& work) {
  Meeting meeting(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Member member{meeting, rank};
      work(member);
    });
}

// Matrices of all ranks in bfloat16, of numbers -1, 0 and 1: all sums are exact where k <= 256.
uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 16;
}
float from_bf16(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof bits);
  return result;
}

struct Case {
  int ranks, m, n, k, op_b, pad;
};

struct Product {
  gemm_sharded_problem problem = GEMM_SHARDED_PROBLEM_DEFAULT;
  int pad;
  std::vector<std::vector<uint16_t>> a, b, c;  // by rank

  Product(int collective, const Case& x) : pad(x.pad) {
    problem.collective = collective;
    problem.m = x.m, problem.n = x.n, problem.k = x.k;
    problem.type = GEMM_BF16, problem.op_b = x.op_b, problem.ranks = x.ranks;
    fill(1);
  }
  bool gathers() const { return problem.collective == GEMM_ALL_GATHER; }
  // Rows of the rank's A or C.
  int64_t rows(int rank, bool of_a) const {
    int64_t first = 0, own = 0;
    EXPECT_EQ(gemm_shard_rows(&problem, rank, &first, &own), GEMM_OK);
    return problem.collective == (of_a ? GEMM_ALL_GATHER : GEMM_REDUCE_SCATTER) ? own : problem.m;
  }
  // The row of all that is the first one of a shard.
  int64_t first(int rank) const {
    int64_t first = 0, own = 0;
    EXPECT_EQ(gemm_shard_rows(&problem, rank, &first, &own), GEMM_OK);
    return first;
  }
  int64_t lda() const { return problem.k + pad; }
  int64_t ldb() const { return (problem.op_b == GEMM_T ? problem.k : problem.n) + pad; }
  int64_t ldc() const { return problem.n + pad; }

  void fill(uint64_t seed) {
    uint64_t state = seed;
    const auto numbers = [&](int64_t count) {
      std::vector<uint16_t> all(count);
      for (uint16_t& x : all) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x = to_bf16(float((state >> 33) % 3) - 1);
      }
      return all;
    };
    a.clear(), b.clear(), c.clear();
    for (int rank = 0; rank < problem.ranks; ++rank) {
      a.push_back(numbers(rows(rank, true) * lda()));
      b.push_back(numbers((problem.op_b == GEMM_T ? problem.n : problem.k) * ldb()));
      c.emplace_back(rows(rank, false) * ldc(), uint16_t{0xffff});
    }
  }
  gemm_sharded_operands operands(int rank) {
    gemm_sharded_operands of = GEMM_SHARDED_OPERANDS_DEFAULT;
    of.a = a[rank].empty() ? nullptr : a[rank].data();
    of.b = b[rank].data();
    of.c = c[rank].empty() ? nullptr : c[rank].data();
    of.lda = lda(), of.ldb = ldb(), of.ldc = ldc();
    return of;
  }
  float product(int of_a, int64_t row, int of_b, int64_t col) const {
    float sum = 0;
    for (int64_t k = 0; k < problem.k; ++k)
      sum += from_bf16(a[of_a][row * lda() + k]) *
             from_bf16(b[of_b][problem.op_b == GEMM_T ? col * ldb() + k : k * ldb() + col]);
    return sum;
  }
  float want(int rank, int64_t row, int64_t col) const {
    float sum = 0;
    const int64_t skipped = problem.collective == GEMM_REDUCE_SCATTER ? first(rank) : 0;
    for (int other = 0; other < problem.ranks; ++other) {
      if (!gathers()) sum += product(other, skipped + row, other, col);
      if (gathers() && row >= first(other) && row < first(other) + rows(other, true))
        return product(other, row - first(other), rank, col);
    }
    return sum;
  }
  // Empty, or the first element that is wrong; what lies between rows is as it was.
  std::string wrong(int rank) const {
    for (int64_t row = 0; row < rows(rank, false); ++row)
      for (int64_t col = 0; col < ldc(); ++col) {
        const uint16_t is = c[rank][row * ldc() + col];
        const uint16_t should = col < problem.n ? to_bf16(want(rank, row, col)) : 0xffff;
        if (is != should && (is | should) != 0x8000)
          return "C(" + std::to_string(row) + ", " + std::to_string(col) + ") of rank " +
                 std::to_string(rank) + " is " + std::to_string(from_bf16(is)) + ", not " +
                 std::to_string(from_bf16(should));
      }
    return "";
  }
};

constexpr int COLLECTIVES[] = {GEMM_ALL_GATHER, GEMM_REDUCE_SCATTER, GEMM_ALL_REDUCE};
// Collectives, each with a rung; null: the one that these small problems choose.
constexpr std::pair<int, const char*> WAYS[] = {{GEMM_ALL_GATHER, nullptr},
                                                {GEMM_REDUCE_SCATTER, nullptr},
                                                {GEMM_ALL_REDUCE, nullptr},
                                                {GEMM_ALL_REDUCE, "m4"}};
constexpr Case SMALL{2, 100, 24, 40, GEMM_N, 0};

TEST(Ranks, EveryShapeAndSeveralCalls) {
  const Case cases[] = {{2, 300, 200, 136, GEMM_N, 0}, {2, 33, 77, 65, GEMM_T, 3},
                        {4, 256, 128, 128, GEMM_N, 8}, {4, 100, 40, 96, GEMM_T, 0},
                        {3, 1, 1, 1, GEMM_N, 0},       {8, 40, 9, 33, GEMM_N, 0}};
  for (const Case& x : cases)
    for (const auto& [collective, rung] : WAYS) {
      Product p(collective, x);
      Meeting between(x.ranks);
      with_ranks(x.ranks, [&, rung = rung](Member& member) {
        ASSERT_EQ(member.create(p.problem, rung).why, "");
        for (int call = 0; call < 3; ++call) {
          const gemm_sharded_operands operands = p.operands(member.rank);
          EXPECT_EQ(told(gemm_sharded_run(member.handle, &operands)).why, "");
          EXPECT_EQ(p.wrong(member.rank), "") << x.m << "x" << x.n << "x" << x.k;
          int mine = 0, all[8];
          ASSERT_TRUE(between.all_gather(member.rank, &mine, all, sizeof mine));
          if (member.rank == 0) p.fill(call + 2);
          ASSERT_TRUE(between.all_gather(member.rank, &mine, all, sizeof mine));
        }
      });
    }
}

TEST(Ranks, SayWhichOneTheyAre) {
  Product p(GEMM_REDUCE_SCATTER, SMALL);
  with_ranks(2, [&](Member& member) {
    ASSERT_EQ(member.create(p.problem, "m4").why, "");
    char text[100];
    ASSERT_EQ(gemm_sharded_explain(member.handle, text, sizeof text), GEMM_OK);
    EXPECT_EQ(text, "m04_peer_stores on 2 simulated devices, rank " + std::to_string(member.rank) +
                        " of 2");
  });
}

TEST(Ranks, ThatDisagree) {
  with_ranks(3, [&](Member& member) {
    Product p(GEMM_ALL_GATHER, {3, member.rank == 2 ? 101 : 100, 24, 40, GEMM_N, 0});
    const Told t = member.create(p.problem);
    EXPECT_EQ(t.status, GEMM_BAD_ARGUMENT);
    EXPECT_EQ(t.why, "the ranks disagree: m is 100 on rank 0 and 101 on rank 2");
  });
}

TEST(Ranks, OneCannot) {
  with_ranks(2, [&](Member& member) {
    Product p(GEMM_ALL_GATHER, SMALL);
    const Told t = member.create(p.problem, member.rank == 1 ? "m1" : nullptr);
    const char* const why =
        "there is no rung \"m1\" of all_gather with a process for each rank: choose from m3";
    EXPECT_EQ(t.status, member.rank == 1 ? GEMM_BAD_ARGUMENT : GEMM_RANK_FAILED);
    EXPECT_EQ(t.why, (member.rank == 1 ? "" : "rank 1 failed: ") + std::string(why));
  });
}

TEST(Ranks, OneDoesNotComeToMakeTheHandle) {
  with_ranks(2, [&](Member& member) {
    if (member.rank == 1) return;
    const Told t = member.create(Product(GEMM_ALL_GATHER, SMALL).problem);
    EXPECT_EQ(t.status, GEMM_RANK_FAILED);
    EXPECT_EQ(t.why, "the exchange with the other ranks failed");
  });
}

TEST(Ranks, OneDoesNotComeToAProduct) {
  for (const int collective : COLLECTIVES) {
    Product p(collective, SMALL);
    with_ranks(2, [&](Member& member) {
      ASSERT_EQ(member.create(p.problem, nullptr, 1).why, "");
      if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      const gemm_sharded_operands operands = p.operands(member.rank);
      for (int call = 0; call < 2; ++call) {
        const Told t = told(gemm_sharded_run(member.handle, &operands));
        EXPECT_EQ(t.status, GEMM_RANK_FAILED);
        EXPECT_THAT(t.why, HasSubstr("not all ranks have come within 1 s"));
      }
    });
  }
}

// A mistake of one rank is told before anything is queued: it may come again, and the other waits.
TEST(Ranks, OneMakesAMistakeFirst) {
  Product p(GEMM_ALL_GATHER, SMALL);
  with_ranks(2, [&](Member& member) {
    ASSERT_EQ(member.create(p.problem).why, "");
    gemm_sharded_operands operands = p.operands(member.rank);
    if (member.rank == 1) {
      operands.a = nullptr;
      EXPECT_EQ(told(gemm_sharded_run(member.handle, &operands)).why,
                "rank 1: A is a null pointer");
      operands = p.operands(member.rank);
    }
    EXPECT_EQ(told(gemm_sharded_run(member.handle, &operands)).why, "");
    EXPECT_EQ(p.wrong(member.rank), "");
  });
}

TEST(Ranks, BadArguments) {
  const Product p(GEMM_ALL_GATHER, SMALL);
  gemm_sharded* handle = nullptr;
  const auto expect = [&](const char* why, const auto& change) {
    gemm_sharded_problem problem = p.problem;
    gemm_rank r = GEMM_RANK_DEFAULT;
    r.exchange = [](void*, const void*, void*, size_t) {
      ADD_FAILURE() << "exchanged";
      return 1;
    };
    change(problem, r);
    EXPECT_EQ(gemm_sharded_create_rank(&problem, &r, nullptr, &handle), GEMM_BAD_ARGUMENT);
    EXPECT_THAT(gemm_last_error(), HasSubstr(why));
  };
  expect("ranks is 9: allowed are 2 to 8", [](auto& problem, auto&) { problem.ranks = 9; });
  expect("rank is 2: allowed are 0 to 1", [](auto&, auto& r) { r.rank = 2; });
  expect("time_limit is -1", [](auto&, auto& r) { r.time_limit = -1; });
  expect("exchange is a null pointer", [](auto&, auto& r) { r.exchange = nullptr; });
  expect("gemm_rank.size is 3: start from GEMM_RANK_DEFAULT", [](auto&, auto& r) { r.size = 3; });
  gemm_rank r = GEMM_RANK_DEFAULT;
  EXPECT_EQ(gemm_sharded_create_rank(nullptr, &r, nullptr, &handle), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_sharded_create_rank(&p.problem, nullptr, nullptr, &handle), GEMM_BAD_ARGUMENT);
  EXPECT_EQ(gemm_sharded_create_rank(&p.problem, &r, nullptr, nullptr), GEMM_BAD_ARGUMENT);
}

TEST(Ranks, TheCppFace) {
  Product p(GEMM_ALL_GATHER, SMALL);
  Meeting meeting(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto exchange = [&](const void* mine, void* all, size_t bytes) {
        if (!meeting.all_gather(rank, mine, all, bytes)) throw std::runtime_error("nobody came");
      };
      const gemm::Rank me{.rank = rank, .exchange = exchange, .device = GEMM_SIMULATOR};
      const gemm::AllGatherGemm<__nv_bfloat16> gather({.m = 100, .n = 24, .k = 40, .ranks = 2}, me);
      gather.run({{.a = reinterpret_cast<const __nv_bfloat16*>(p.a[rank].data()),
                   .b = reinterpret_cast<const __nv_bfloat16*>(p.b[rank].data()),
                   .c = reinterpret_cast<__nv_bfloat16*>(p.c[rank].data())}});
      EXPECT_EQ(p.wrong(rank), "");
      EXPECT_THROW(gather.run({{}, {}}), gemm::Error);
    });
  threads.clear();
  const gemm::Rank alone{.rank = 0, .exchange = [](const void*, void*, size_t) {
                           throw std::runtime_error("nobody came");
                         }};
  try {
    const gemm::AllGatherGemm<__half> gather({.m = 1, .n = 1, .k = 1}, alone);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "nobody came");
  }
}

}  // namespace
