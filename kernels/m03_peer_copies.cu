// m3 peer copies: one persistent kernel that begins before its operand has come.
//
// before: m2 launches a kernel for each shard, and each one's last wave leaves SMs idle
// idea:   one kernel computes all shards, its own first. Copy engines send each shard to the other
//         GPUs in chunks, with a flag after each. The producer waits for it before a tile's loads
// watch:  a kernel that waits holds its SMs. Whatever sets its flags must not need one: a copy
//         engine, and a flag written by the stream. A kernel, even a memset's, could queue up
//         behind it for ever. And flags only rise: a flag that is reset may be reset too late
// needs:  sm_90a; peer access between the GPUs; copies of A and B where TMA cannot address them
//
//   who                    waits for                   then                   and tells
//   copy engine            all ranks are here          sends a chunk of A     arrived[shard][chunk]
//   producer, one thread   arrived[..], empty[stage]   loads a k-tile         full[stage]
//   consumers, 2 x 128     order[wg], full[stage]      wgmma of whole tiles   v24's barriers
//
//   copy engine  | chunk 0 | chunk 1 | chunk 2 | chunk 3 |
//   flags rise             0         1         2         3
//   SMs          | tiles of the own shard ........................... | tiles of the others ...
#include "device/dynamic_shared.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/ping_pong.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/system.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/shards.cuh"
#include "device/tma_epilogue.cuh"
#include "plan/tiles.h"
#include "sharded/sharded_rung.h"

namespace {
using namespace gemm;

constexpr int BK = 64, MMA_M = 64;  // depth of a k-tile; rows of a wgmma
constexpr int GROUP_M = 16;         // rows of tiles that are worked on together
constexpr int CHUNKS = 4;           // of a shard, at most; each with a flag
static_assert(MOST_RANKS * CHUNKS <= 32, "a bit for each flag");
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Which chunks of the other ranks' shards have come: a flag each, which holds the number of the
// call that it came for.
struct Arrivals {
  const uint32_t* flags;  // (ranks, CHUNKS)
  uint32_t call;
  int chunk_rows;

  // [region idea]
  // Returns when rows `first` to before `end` of a shard are there, for this thread's TMA. `seen`:
  // the flags that it has waited for, a bit each. A flag is read by a system-wide load, which takes
  // as long as a k-tile or two: once is enough.
  GEMM_DEVICE void wait(int shard, int first, int end, uint32_t& seen GEMM_CALLER_ARG) const {
    for (int chunk = first / chunk_rows; chunk * chunk_rows < end; ++chunk) {
      const int flag = shard * CHUNKS + chunk;
      if (seen >> flag & 1) continue;
      signal_wait(&flags[flag], call GEMM_CALLER_PASS);
      fence_proxy_async_global();  // the flag was read by an ordinary load; A will be by TMA
      seen |= 1u << flag;
    }
  }
  // [/region idea]
};

template <class T, Major B_MAJOR, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_m03(GemmArgs<T> p, bool aligned_c, Shards shards, int rank, Arrivals arrivals,
             const __grid_constant__ ShardMaps maps_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_c) {
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK), tiles_n = cdiv(p.N, BN);
  const int begin = blockIdx.x, step = gridDim.x;
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    // [region producer]
    uint32_t seen = 0;
    for_each_tile_of_shards<BM, GROUP_M>(
        shards, rank, begin, step, tiles_n, [&](int shard, int bm, int bn) {
          const int rows = shards.rows(shard), end = (bm + 1) * BM < rows ? (bm + 1) * BM : rows;
          if (shard != rank) arrivals.wait(shard, bm * BM, end, seen);
          produce<TileA, TileB>(s.A[0], s.B[0], s.full, s.empty, state, maps_a.of[shard], map_b,
                                bm * BM, bn * BN, 0, k_tiles);
        });
    // [/region producer]
    return;
  }

  // A consumer: every other tile of the CTA.
  setmaxnreg_inc<CONSUMER_REGS>();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  for_each_tile_of_shards<BM, GROUP_M>(
      shards, rank, begin + wg * step, 2 * step, tiles_n, [&](int shard, int bm, int bn) {
        fence_operand(bm, bn);
        float acc[BM / MMA_M][BN / 2];
        multiply_in_turn<TileA, TileB>(s, state, wg, parity, other, k_tiles, acc);

        // Epilogue: rows of this shard alone.
        GemmArgs<T> out = p;
        out.M = shards.end(shard);
#pragma unroll
        for (int i = 0; i < BM / MMA_M; ++i) {
          const int m = shards.first(shard) + bm * BM + i * MMA_M, n = bn * BN;
          fence_operand(acc[i]);
          apply_epilogue<BN <= 128 ? 64 : 32>(out, aligned_c, m, n, acc[i]);
          store_panels(out, aligned_c, map_c, m, n, staging, i, acc[i]);
        }
      });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES>
void launch(const GemmArgs<T>& p, const Shards& shards, int rank, const Arrivals& arrivals,
            const MatrixView<T> (&A)[MOST_RANKS], int ctas, Stream stream) {
  // A copy of the own shard that TMA can address, before the kernel and on its stream. Within one
  // GPU a copy may need SMs, and the kernel has them all.
  const RepackedPair<T> in(
      A[rank], {p.B, p.op_b == Op::N ? p.K : p.N, p.op_b == Op::N ? p.N : p.K, p.ldb}, stream);
  ShardMaps maps{};
  for (int i = 0; i < shards.ranks; ++i)
    maps.of[i] = OperandTile<T, BM, Major::K>::map(i == rank ? in.A.data : A[i].data, A[i].rows,
                                                   A[i].cols, i == rank ? in.A.ld : A[i].ld);
  const int64_t grid = std::min<int64_t>(ctas, tiles_of_shards(shards, p.N, BM, BN));
  with_majors(p, [&](auto, auto b) {
    using TileA = OperandTile<T, BM, Major::K>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(gemm_m03<T, b(), BM, BN, STAGES, EPILOGUE_STAGES>, grid, dim3(THREADS),
                 {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>)}, stream, p,
                 has_aligned_c(p), shards, rank, arrivals, maps,
                 TileB::map(in.B.data, p.N, p.K, in.B.ld), c_map(p, 16));
  });
}

constexpr TileCost TILES[] = {{128, 192, 1.0}, {128, 128, 1.05}};
template <class T>
constexpr decltype(&launch<T, 128, 192, 5, 1>) LAUNCHES[] = {launch<T, 128, 192, 5, 1>,
                                                             launch<T, 128, 128, 6, 2>};

template <class T>
class PeerCopies final : public ShardedGemm {
 public:
  PeerCopies(const ShardedProblem& p, Fabric& fabric, int variant)
      : p_(p),
        fabric_(fabric),
        ld_(exchange_ld(p.K)),
        received_(fabric, p.ranks * p.shards().each() * ld_ * sizeof(T), "received A"),
        flags_(fabric, p.ranks * CHUNKS * sizeof(uint32_t), "arrived", Fabric::Contents::zeros) {
    const DeviceScope scope(fabric.device(fabric.here()[0]));
    ctas_ = persistent_blocks();
    tile_ =
        choose_tile(p.shards().each(), p.N, TILES, std::size(TILES), sm_count(), variant, p.ranks)
            .index;
  }

  void enqueue(const ShardedCall& call) override {
    ++calls_;
    fabric_.join_ranks();  // the product before has read what was sent for it
    // All copies before any kernel: kernels wait for them.
    std::vector<Fabric::Event> sent;
    for (const int rank : fabric_.here()) sent.push_back(send_shard(rank, call[rank]));
    for (const int rank : fabric_.here()) launch_rank(rank, call[rank]);
    // Whoever overwrites an A has waited for its copies.
    for (size_t i = 0; i < sent.size(); ++i)
      fabric_.wait(fabric_.compute(fabric_.here()[i]), sent[i]);
  }

 private:
  // Rows of a chunk: a quarter of two ranks' shards. More ranks' shards are smaller, and have fewer
  // chunks: one thread may queue all copies, of four ranks 12 for each chunk, and as many flags.
  int chunk_rows() const { return cdiv(cdiv(p_.M, 2 * CHUNKS), 128) * 128; }

  // Queues copies of a rank's shard into the others' memory, in chunks, each with its flag. First
  // to the rank before this one, whose kernel wants this shard next after its own. What comes after
  // the event finds all of it sent.
  Fabric::Event send_shard(int rank, const ShardedOperands& of) {
    const int ranks = p_.ranks, rows = p_.shards().rows(rank), step = chunk_rows();
    const int64_t size = sizeof(T);
    const T* const A = static_cast<const T*>(of.A);
    void* const copies = fabric_.copies(rank);
    fabric_.wait(copies, fabric_.record(fabric_.compute(rank)));
    for (int i = 1; i < ranks; ++i) {
      const int to = (rank + ranks - i) % ranks;
      T* const there = received_.of<T>(to) + int64_t{p_.shards().first(rank)} * ld_;
      for (int first = 0; first < rows; first += step) {
        fabric_.copy(copies, {there + first * ld_, ld_ * size, A + first * of.lda, of.lda * size,
                              p_.K * size, std::min(step, rows - first)});
        fabric_.write_flag(copies, flags_.of<uint32_t>(to) + rank * CHUNKS + first / step, calls_);
      }
    }
    return fabric_.record(copies);
  }

  void launch_rank(int rank, const ShardedOperands& of) {
    const Shards shards = p_.shards();
    MatrixView<T> A[MOST_RANKS]{};
    for (int shard = 0; shard < p_.ranks; ++shard) {
      const T* const there = received_.of<T>(rank) + int64_t{shards.first(shard)} * ld_;
      A[shard] = {there, shards.rows(shard), p_.K, ld_};
    }
    if (shards.rows(rank) > 0) A[rank].data = static_cast<const T*>(of.A), A[rank].ld = of.lda;
    const DeviceScope scope(fabric_.device(rank));
    LAUNCHES<T>[tile_](args_of_rank<T>(p_, of), shards, rank,
                       {flags_.of<uint32_t>(rank), calls_, chunk_rows()}, A, ctas_,
                       static_cast<Stream>(fabric_.compute(rank)));
  }

  const ShardedProblem p_;
  Fabric& fabric_;
  const int64_t ld_;
  const SymmetricMemory received_, flags_;  // of each rank: (M, K), pitch ld_; (ranks, CHUNKS)
  int tile_ = 0, ctas_ = 0;
  uint32_t calls_ = 0;
};

const ShardedRegistration rung(
    {.prev = "m2",
     .idea = "peer copies behind flags: one kernel waits for chunks, its own shard first",
     .needs = {.sm = 90, .exact_arch = true},
     .apart = true,
     .variants = {"128x192 s5", "128x128 s6"}},
    {sharded<PeerCopies<half>>(Collective::all_gather, DType::f16),
     sharded<PeerCopies<bf16>>(Collective::all_gather, DType::bf16)});

}  // namespace
