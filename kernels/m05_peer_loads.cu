// m5 peer loads: a small all-reduce, by one trip over NVLink in place of two.
//
// before: m4 sends a tile to its owner and the sum back. Where C is small, that is all waiting
// idea:   each GPU multiplies into memory that all others reach. Then each reads all partial
//         results, and adds them in the order of ranks: the same bits on every GPU
// watch:  it moves ranks / 2 times as many bytes as it must. And who may overwrite a partial
//         result: two buffers take turns, so that one meeting of the ranks per call is enough
// needs:  peer access between the GPUs; no NCCL
//
//   rank 0   | GEMM: part 0 | all have come | reads parts 0 and 1, adds, stores C |
//   rank 1   | GEMM: part 1 | all have come | reads parts 0 and 1, adds, stores C |
#include "device/vec.cuh"
#include "sharded/sharded_rung.h"

namespace {
using namespace gemm;

constexpr int THREADS = 256;
// Elements of C up to which this rung is chosen; m4 is for more.
constexpr int64_t MOST_ELEMENTS = 1 << 21;  // m5 leads at 64 x 8192, m4 at 2048: four H200s

template <class T>
struct Parts {
  const T* of[MOST_RANKS];  // in each rank's memory: (M, N), pitch ld
  int64_t ld;
  int ranks;
};

// [region idea]
// C = the sum of all parts. A thread has 16 bytes of a row.
template <class T>
__global__ void __launch_bounds__(THREADS)
    gemm_m05(Parts<T> parts, int M, int N, T* C, int64_t ldc, bool aligned_c) {
  constexpr int GROUP = 16 / sizeof(T);
  const int groups = cdiv(N, GROUP);
  const int64_t nth = blockIdx.x * int64_t{THREADS} + threadIdx.x, m = nth / groups;
  const int n = static_cast<int>(nth % groups) * GROUP;
  if (m >= M) return;
  uint4 words[MOST_RANKS];  // all loads before any use: NVLink takes a microsecond
#pragma unroll
  for (int rank = 0; rank < MOST_RANKS; ++rank)
    if (rank < parts.ranks)
      words[rank] = *reinterpret_cast<const uint4*>(parts.of[rank] + m * parts.ld + n);
  float sums[GROUP] = {};
#pragma unroll
  for (int rank = 0; rank < MOST_RANKS; ++rank) {
    if (rank >= parts.ranks) continue;
    T part[GROUP];
    memcpy(part, &words[rank], sizeof part);
#pragma unroll
    for (int i = 0; i < GROUP; ++i) sums[i] += float(part[i]);
  }
  T out[GROUP];
#pragma unroll
  for (int i = 0; i < GROUP; ++i) out[i] = T(sums[i]);
  T* const c = C + m * ldc + n;
  if (aligned_c && n + GROUP <= N) {
    uint4 word{};
    memcpy(&word, out, sizeof word);
    *reinterpret_cast<uint4*>(c) = word;
    return;
  }
#pragma unroll
  for (int i = 0; i < GROUP; ++i)
    if (n + i < N) c[i] = out[i];
}
// [/region idea]

template <class T>
class PeerLoads final : public ShardedGemm {
 public:
  PeerLoads(const ShardedProblem& p, Fabric& fabric, int)
      : p_(p),
        fabric_(fabric),
        products_(p, fabric, dispatching_rung(p.dtype)),
        ld_(exchange_ld(p.N)) {
    // Zeros: what lies between rows is read, too.
    for (const char* name : {"even parts", "odd parts"})
      parts_.push_back(std::make_unique<SymmetricMemory>(fabric, p.M * ld_ * sizeof(T), name,
                                                         Fabric::Contents::zeros));
  }

  void enqueue(const ShardedCall& call) override {
    // All have read what the call before the last one left in this buffer: they have met since.
    const SymmetricMemory& parts = *parts_[calls_++ % 2];
    for (const int rank : fabric_.here())
      products_.enqueue(rank, p_.M, call[rank].A, call[rank].lda, call[rank], parts.of<T>(rank),
                        ld_);
    fabric_.join_ranks();
    Parts<T> from{.of = {}, .ld = ld_, .ranks = p_.ranks};
    for (int rank = 0; rank < p_.ranks; ++rank) from.of[rank] = parts.of<T>(rank);
    const int64_t threads = int64_t{p_.M} * cdiv(p_.N, int(16 / sizeof(T)));
    for (const int rank : fabric_.here()) {
      const GemmArgs<T> args = args_of_rank<T>(p_, call[rank]);
      const DeviceScope scope(fabric_.device(rank));
      gemm::launch(gemm_m05<T>, (threads + THREADS - 1) / THREADS, THREADS, {},
                   static_cast<Stream>(fabric_.compute(rank)), from, p_.M, p_.N, args.C, args.ldc,
                   has_aligned_c(args));
    }
  }

 private:
  const ShardedProblem p_;
  Fabric& fabric_;
  RankProducts products_;
  const int64_t ld_;
  std::vector<std::unique_ptr<SymmetricMemory>> parts_;  // two, of each rank: (M, N), pitch ld_
  uint32_t calls_ = 0;
};

const ShardedRegistration rung(
    {.prev = "m4",
     .idea = "peer loads: each GPU reads all partial results, a small all-reduce",
     .apart = true,
     .most_elements = MOST_ELEMENTS},
    {sharded<PeerLoads<half>>(Collective::all_reduce, DType::f16),
     sharded<PeerLoads<bf16>>(Collective::all_reduce, DType::bf16)});

}  // namespace
