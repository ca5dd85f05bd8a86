// m1 collective: NCCL moves the shards, then each GPU multiplies.
//
// before: v28 multiplies what one GPU holds
// idea:   a layer too large for one GPU is sharded. All-gather brings each GPU all rows of A; or
//         reduce-scatter adds up the GPUs' partial results, for a shard of the rows on each, and
//         all-reduce for all rows on each. Communication and GEMM take turns
// watch:  the wire idles while the GPUs multiply, and they idle while it is busy: times add up
// needs:  NCCL; the GPUs of one host
//
//   all_gather    wire | all-gather A |            reduce_scatter          | reduce-scatter C |
//                 SMs                 | GEMM ... |                | GEMM ... |
#include "sharded/sharded_rung.h"

namespace {
using namespace gemm;

// The rungs that multiply: our dispatcher, or cuBLAS (v9), as the baseline.
const Rung& multiplier(DType dtype, int variant) {
  return variant == 1 ? *find_rung(BACKEND, "v9", dtype) : dispatching_rung(dtype);
}

// [region idea]
template <class T>
class GatherThenMultiply final : public ShardedGemm {
 public:
  GatherThenMultiply(const ShardedProblem& p, Fabric& fabric, int variant)
      : p_(p),
        fabric_(fabric),
        products_(p, fabric, multiplier(p.dtype, variant)),
        ld_(exchange_ld(p.K)) {
    for (int rank = 0; rank < p.ranks; ++rank)
      gathered_.emplace_back(fabric, rank, p.ranks * shard_bytes(), "gathered A");
  }

  void enqueue(const ShardedCall& call) override {
    const Shards shards = p_.shards();
    fabric_.join_ranks();
    std::vector<const void*> from;
    std::vector<void*> to;
    for (int rank = 0; rank < p_.ranks; ++rank) {
      char* const all = gathered_[rank].as<char>();
      const bool in_place = call[rank].lda == ld_ && shards.rows(rank) == shards.each();
      void* const own = all + rank * shard_bytes();
      if (!in_place)
        fabric_.copy(fabric_.compute(rank),
                     {own, row_bytes(), call[rank].A, call[rank].lda * int64_t{sizeof(T)},
                      p_.K * int64_t{sizeof(T)}, shards.rows(rank)});
      from.push_back(in_place ? call[rank].A : own);
      to.push_back(all);
    }
    fabric_.all_gather(from, to, shard_bytes());
    for (int rank = 0; rank < p_.ranks; ++rank)
      products_.enqueue(rank, p_.M, to[rank], ld_, call[rank], call[rank].C, call[rank].ldc);
  }

 private:
  int64_t row_bytes() const { return ld_ * int64_t{sizeof(T)}; }
  int64_t shard_bytes() const { return p_.shards().each() * row_bytes(); }

  const ShardedProblem p_;
  Fabric& fabric_;
  RankProducts products_;
  const int64_t ld_;
  std::vector<SharedMemory> gathered_;  // (ranks * shards.each(), K), pitch ld_
};
// [/region idea]

template <class T>
class MultiplyThenAdd final : public ShardedGemm {
 public:
  MultiplyThenAdd(const ShardedProblem& p, Fabric& fabric, int variant)
      : p_(p),
        fabric_(fabric),
        products_(p, fabric, multiplier(p.dtype, variant)),
        ld_(exchange_ld(p.N)) {
    for (int rank = 0; rank < p.ranks; ++rank) {
      // Zeros: what lies between rows is added, too.
      partial_.emplace_back(fabric, rank, p.ranks * p.shards().each() * ld_ * sizeof(T),
                            "partial C", Fabric::Contents::zeros);
      sum_.emplace_back(fabric, rank, sum_elements() * sizeof(T), "sum");
    }
  }

  void enqueue(const ShardedCall& call) override {
    fabric_.join_ranks();
    std::vector<const void*> from;
    std::vector<void*> to;
    for (int rank = 0; rank < p_.ranks; ++rank) {
      products_.enqueue(rank, p_.M, call[rank].A, call[rank].lda, call[rank],
                        partial_[rank].as<T>(), ld_);
      from.push_back(partial_[rank].as<T>());
      to.push_back(in_place(call[rank], rank) ? call[rank].C : sum_[rank].as<T>());
    }
    const Element element = info(p_.dtype).out;
    scatters() ? fabric_.reduce_scatter(from, to, sum_elements(), element)
               : fabric_.all_reduce(from, to, sum_elements(), element);
    for (int rank = 0; rank < p_.ranks; ++rank)
      if (!in_place(call[rank], rank))
        fabric_.copy(fabric_.compute(rank),
                     {call[rank].C, call[rank].ldc * int64_t{sizeof(T)}, to[rank],
                      ld_ * int64_t{sizeof(T)}, p_.N * int64_t{sizeof(T)}, rows(rank)});
  }

 private:
  bool scatters() const { return p_.collective == Collective::reduce_scatter; }
  int rows(int rank) const { return scatters() ? p_.shards().rows(rank) : p_.M; }
  int64_t sum_elements() const { return (scatters() ? p_.shards().each() : p_.M) * ld_; }
  bool in_place(const ShardedOperands& of, int rank) const {
    return of.ldc == ld_ && ld_ == p_.N && rows(rank) * ld_ == sum_elements();
  }

  const ShardedProblem p_;
  Fabric& fabric_;
  RankProducts products_;
  const int64_t ld_;
  std::vector<SharedMemory> partial_, sum_;  // (ranks * shards.each(), N) and what a rank keeps
};

const ShardedRegistration rung(
    {.prev = "v28",
     .idea = "a collective, then a GEMM: the wire and the SMs take turns",
     .collectives = true,
     .variants = {"ours", "cublas"}},
    {sharded<GatherThenMultiply<half>>(Collective::all_gather, DType::f16),
     sharded<GatherThenMultiply<bf16>>(Collective::all_gather, DType::bf16),
     sharded<MultiplyThenAdd<half>>(Collective::reduce_scatter, DType::f16),
     sharded<MultiplyThenAdd<bf16>>(Collective::reduce_scatter, DType::bf16),
     sharded<MultiplyThenAdd<half>>(Collective::all_reduce, DType::f16),
     sharded<MultiplyThenAdd<bf16>>(Collective::all_reduce, DType::bf16)});

}  // namespace
