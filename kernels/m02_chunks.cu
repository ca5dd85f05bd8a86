// m2 chunks: a copy engine brings the next shard while this one is multiplied.
//
// before: m1's GEMM begins when the last shard has come, although most of its rows need only one
// idea:   a shard is a chunk of work. Each GPU multiplies its own shard first; meanwhile a copy
//         engine, on a second stream, fetches the neighbour's. An event tells when it is there
// watch:  a launch for each shard: small ones leave SMs idle in their last waves. And who may
//         overwrite what: a buffer is free when all who read it have ended, on every GPU
// needs:  peer access between the GPUs; no NCCL
//
//   rank 0's copies  | A of rank 1 ... | A of rank 2 ... |
//   rank 0's SMs     | own A ............ | A of rank 1 ...... | A of rank 2 ...... |
#include "sharded/sharded_rung.h"

namespace {
using namespace gemm;

template <class T>
class Chunks final : public ShardedGemm {
 public:
  Chunks(const ShardedProblem& p, Fabric& fabric, int)
      : p_(p),
        fabric_(fabric),
        products_(p, fabric, dispatching_rung(p.dtype)),
        ld_(exchange_ld(p.K)) {
    for (int rank = 0; rank < p.ranks; ++rank)
      fetched_.emplace_back(fabric, rank, p.ranks * p.shards().each() * ld_ * sizeof(T),
                            "fetched A");
  }

  // [region idea]
  void enqueue(const ShardedCall& call) override {
    const Shards shards = p_.shards();
    const int ranks = p_.ranks;
    fabric_.join_ranks();  // every A is there; the product before has read what was fetched for it
    for (int rank = 0; rank < ranks; ++rank) {
      void* const copies = fabric_.copies(rank);
      fabric_.wait(copies, fabric_.record(fabric_.compute(rank)));
      launch_shard(call, rank, rank, call[rank].A, call[rank].lda);
      for (int step = 1; step < ranks; ++step) {
        const int other = (rank + step) % ranks;
        T* const to = fetched_[rank].as<T>() + int64_t{shards.first(other)} * ld_;
        fabric_.copy(copies, {to, ld_ * int64_t{sizeof(T)}, call[other].A,
                              call[other].lda * int64_t{sizeof(T)}, p_.K * int64_t{sizeof(T)},
                              shards.rows(other)});
        fabric_.wait(fabric_.compute(rank), fabric_.record(copies));
        launch_shard(call, rank, other, to, ld_);
      }
    }
    fabric_.join_ranks();  // whoever overwrites an A has waited for all who fetch it
  }
  // [/region idea]

 private:
  void launch_shard(const ShardedCall& call, int rank, int shard, const void* A, int64_t lda) {
    const ShardedOperands& of = call[rank];
    const int first = p_.shards().first(shard);
    products_.enqueue(rank, p_.shards().rows(shard), A, lda, of,
                      static_cast<T*>(of.C) + first * of.ldc, of.ldc);
  }

  const ShardedProblem p_;
  Fabric& fabric_;
  RankProducts products_;
  const int64_t ld_;
  std::vector<SharedMemory> fetched_;  // (M, K), pitch ld_
};

const ShardedRegistration rung({.prev = "m1",
                                .idea = "chunks: a copy engine fetches while SMs multiply"},
                               {sharded<Chunks<half>>(Collective::all_gather, DType::f16),
                                sharded<Chunks<bf16>>(Collective::all_gather, DType::bf16)});

}  // namespace
