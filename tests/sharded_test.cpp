// Products sharded over several simulated devices: every rung is right at every shape, and the check
// sees what a wrong one does.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ostream>
#include <thread>

#include "harness/sharded_matrices.h"
#include "sharded/rank_group.h"
#include "sim/simulator.h"

namespace gemm {
// What GoogleTest prints for a test's parameter.
void PrintTo(const ShardedRung* rung, std::ostream* out) { *out << rung->name; }

namespace {

TEST(Shards, CoverAllRowsOnce) {
  for (const int M : {0, 1, 15, 16, 17, 100, 127, 128, 1000, 4096})
    for (int ranks = 1; ranks <= MOST_RANKS; ++ranks) {
      const Shards shards{M, ranks};
      int rows = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(shards.first(rank), rows);
        EXPECT_TRUE(shards.first(rank) % Shards::ROWS == 0 || shards.rows(rank) == 0);
        EXPECT_LE(shards.rows(rank), shards.each());
        rows += shards.rows(rank);
      }
      EXPECT_EQ(rows, M);
    }
}

// Two processes that meet through a socket. This one is rank 0.
class OtherProcess {
 public:
  // `work` is done by rank 1, in the other process, which ends then.
  template <class Work>
  explicit OtherProcess(Work&& work) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    process_ = fork();
    close(ends_[process_ != 0 ? 1 : 0]);
    if (process_ != 0) return;
    const std::unique_ptr<RankGroup> group = meet(1);
    work(*group, *this);
    _exit(0);
  }
  ~OtherProcess() {
    close(ends_[0]);  // it waits no more
    waitpid(process_, nullptr, 0);
  }

  std::unique_ptr<RankGroup> meet(int rank = 0) {
    const auto all_gather = [this, rank](const void* mine, void* all, size_t bytes) {
      char* const to = static_cast<char*>(all);
      std::memcpy(to + rank * bytes, mine, bytes);
      return write(ends_[rank], mine, bytes) == ssize_t(bytes) &&
             recv(ends_[rank], to + (1 - rank) * bytes, bytes, MSG_WAITALL) == ssize_t(bytes);
    };
    return std::make_unique<RankGroup>(rank, 2, all_gather, std::chrono::seconds(1));
  }
  // Lets the other one go on, and waits for that.
  void go_on(int rank = 0) {
    const char byte = 0;
    EXPECT_EQ(write(ends_[rank], &byte, 1), 1);
  }
  void wait(int rank = 0) {
    char byte = 0;
    EXPECT_EQ(read(ends_[rank], &byte, 1), 1);
  }
  int process() const { return process_; }

 private:
  int ends_[2] = {};
  int process_ = 0;
};

TEST(Ranks, SeeThatOneHasEnded) {
  OtherProcess other([](RankGroup&, OtherProcess& self) { self.wait(1); });
  const std::unique_ptr<RankGroup> group = other.meet();
  EXPECT_EQ(group->lost(), "");
  EXPECT_FALSE(group->all_have_left());
  other.go_on();
  for (int i = 0; i < 200 && group->lost().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // It is still there to be waited for, as where a launcher has not yet done so.
  EXPECT_EQ(group->lost(), "rank 1 has ended (process " + std::to_string(other.process()) + ")");
  EXPECT_EQ(group->failed(), "");
  EXPECT_TRUE(group->all_have_left());
}

TEST(Ranks, TellWhyTheyFailAndWhenTheyHaveLeft) {
  OtherProcess other([](RankGroup& group, OtherProcess& self) {
    group.fail("it has no paper");
    group.fail("nor ink");
    self.go_on(1);
    self.wait(1);
    group.leave();
    self.go_on(1);
    self.wait(1);
  });
  const std::unique_ptr<RankGroup> group = other.meet();
  other.wait();
  EXPECT_EQ(group->failed(), "rank 1 failed: it has no paper");
  EXPECT_EQ(group->lost(), group->failed());
  EXPECT_FALSE(group->all_have_left());
  other.go_on();
  other.wait();
  EXPECT_TRUE(group->all_have_left());
  other.go_on();
}

std::string verify(const ShardedRung& rung, int variant, const ShardedProblem& p, int ld_pad) {
  const std::unique_ptr<Device> device = make_sim_device();
  const std::unique_ptr<Fabric> fabric = make_sim_fabric(p.ranks);
  ShardedMatrices matrices(std::vector<Device*>(p.ranks, device.get()), *fabric, p, ld_pad);
  return verify_sharded(rung, variant, p, *fabric, matrices);
}

class ShardedRungs : public ::testing::TestWithParam<const ShardedRung*> {};

TEST_P(ShardedRungs, AreRightAtEveryShape) {
  const ShardedRung& rung = *GetParam();
  struct Case {
    int ranks, M, N, K, ld_pad;
    Op op_b;
  };
  const Case cases[] = {{2, 256, 192, 128, 0, Op::N}, {2, 300, 200, 136, 8, Op::T},
                        {4, 1100, 77, 65, 0, Op::N},  {8, 520, 256, 72, 1, Op::T},
                        {3, 33, 130, 200, 0, Op::N},  {8, 40, 8, 64, 0, Op::N}};
  // The other variants and the other type differ in tiles and in rounding: two problems of each.
  const int variants = std::max<int>(1, static_cast<int>(rung.variants.size()));
  for (const Case& c : cases)
    for (int variant = 0; variant < variants; ++variant) {
      if (&c >= cases + 2 && (variant > 0 || rung.dtype == DType::f16)) continue;
      const ShardedProblem p{rung.collective, rung.dtype, c.ranks, c.M, c.N, c.K, c.op_b};
      EXPECT_EQ(verify(rung, variant, p, c.ld_pad), "")
          << c.ranks << " ranks, " << c.M << "x" << c.N << "x" << c.K << ", variant " << variant;
    }
}

TEST_P(ShardedRungs, AreRightWhenCopiesComeEarly) {
  sim::set_async_schedule(sim::AsyncSchedule::eager_copies);
  EXPECT_EQ(
      verify(*GetParam(), 0, {GetParam()->collective, GetParam()->dtype, 4, 600, 264, 320}, 0), "");
  sim::set_async_schedule(sim::AsyncSchedule::lazy_copies);
}

INSTANTIATE_TEST_SUITE_P(Sim, ShardedRungs, ::testing::ValuesIn(sharded_rungs(Backend::sim)),
                         [](const auto& test) {
                           return test.param->name + "_" + name_of(test.param->collective) + "_" +
                                  to_string(test.param->dtype);
                         });

// Wrong products, made of copies alone: C = B's first rows would do as well as any for what they are
// to show.
class Wrong final : public ShardedGemm {
 public:
  enum class Mistake { nothing_gathered, row_too_many };
  Wrong(const ShardedRung& right, const ShardedProblem& p, Fabric& fabric, Mistake mistake)
      : right_(right.make(p, fabric, 0)), p_(p), fabric_(fabric), mistake_(mistake) {}
  void enqueue(const ShardedCall& call) override {
    right_->enqueue(call);
    const Shards shards = p_.shards();
    const int64_t ldc = call[1].ldc * 2, width = p_.N * int64_t{2};
    char* const c = static_cast<char*>(call[1].C);
    if (mistake_ == Mistake::row_too_many)  // behind rank 1's shard, above it of rank 0's rows
      fabric_.copy(fabric_.compute(1), {c - ldc, ldc, c, ldc, width, 1});
    else  // rank 1 has its own rows of A where rank 0's belong
      fabric_.copy(fabric_.compute(1),
                   {c, ldc, c + shards.first(1) * ldc, ldc, width, shards.rows(1)});
  }

 private:
  const std::unique_ptr<ShardedGemm> right_;
  const ShardedProblem p_;
  Fabric& fabric_;
  const Mistake mistake_;
};

std::string verify_wrong(Collective collective, Wrong::Mistake mistake) {
  for (const ShardedRung* right : sharded_rungs(Backend::sim)) {
    if (right->collective != collective || right->dtype != DType::f16) continue;
    ShardedRung wrong = *right;
    wrong.make = [right, mistake](const ShardedProblem& p, Fabric& fabric, int) {
      return std::unique_ptr<ShardedGemm>(new Wrong(*right, p, fabric, mistake));
    };
    return verify(wrong, 0, {collective, DType::f16, 2, 128, 64, 64}, 0);
  }
  return "there is no such rung";
}

TEST(ShardedCheck, SeesAnotherRanksRows) {
  const std::string wrong = verify_wrong(Collective::all_gather, Wrong::Mistake::nothing_gathered);
  EXPECT_NE(wrong.find("rank 1: "), std::string::npos) << wrong;
}
TEST(ShardedCheck, SeesRowsThatBelongToOthers) {
  const std::string wrong = verify_wrong(Collective::reduce_scatter, Wrong::Mistake::row_too_many);
  EXPECT_NE(wrong.find("rank 1: rows outside of its shard were overwritten"), std::string::npos)
      << wrong;
}

}  // namespace
}  // namespace gemm
