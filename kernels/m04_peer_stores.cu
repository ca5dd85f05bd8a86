// m4 peer stores: partial results go to the GPU that adds them, tile by tile, as they are computed.
//
// before: m1's reduce-scatter begins when the last partial result is there
// idea:   a GPU computes first the tiles that belong to others. Its epilogue stores each to its
//         owner, by TMA through NVLink, and raises a flag there. Its own tiles come last: their
//         epilogue adds what the others have sent, in single precision, in a fixed order
// watch:  a store's panel is free when it has been read (wait_group.read), its data there when
//         written (wait_group): only then may the flag rise. And two kernels that wait for each
//         other must both run: each sends everything before it waits for anything
// more:   all-reduce goes on: the owner stores a finished tile to all ranks, with flags as before
// needs:  sm_90a; peer access between the GPUs; copies of operands that TMA cannot address
//
//   who        with a tile of     waits for        then                     and tells
//   consumer   another rank       its wgmma        TMA stores to the owner  its sent[rank][tile]
//              this rank          sent[..][tile]   adds, stores C; of       all ranks'
//                                                  all-reduce to all ranks  done[rank][tile]
//   at last    another rank       done[..][tile]   copies it into C
//
//   rank 0   | tiles of rank 1 ........ | own tiles: each waits, adds, stores | of all-reduce:
//   NVLink        | to rank 1, to rank 0 ... |    | of all-reduce: to all ...... |   the others'
//   rank 1   | tiles of rank 0 ........ | own tiles: each waits, adds, stores |     tiles, copied
#include <array>
#include <optional>

#include "device/dynamic_shared.cuh"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/persistent.cuh"
#include "device/ping_pong.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
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
constexpr int WARPS = 4;  // of a consumer: each sends its rows of a tile, and raises the flag
constexpr int THREADS = 3 * 128, PRODUCER_REGS = 24, CONSUMER_REGS = 240;

template <class TileA, class TileB, int STAGES, int EPILOGUE_STAGES>
struct Shared {                     // every panel starts at a multiple of 1024 bytes
  uint8_t A[STAGES][TileA::BYTES];  // (STAGES, BM, BK), swizzled
  uint8_t B[STAGES][TileB::BYTES];  // (STAGES, BN / 64, BK, 64) or, transposed, (STAGES, BN, BK)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Where ranks put the partial results of each other's rows. Each has a slot for every rank.
template <class T>
struct Exchange {
  // Counters of the warps' stores, of each rank: (ranks, tiles of a shard). Behind them, `done`:
  // such counters of finished tiles.
  uint32_t* sent[MOST_RANKS];
  const T* received;  // this rank's: (ranks, shards.each(), N), pitch ld
  const T* sums;      // this rank's, of all-reduce: (M, N), pitch ld; else null
  int64_t ld, slot;   // elements from row to row, from rank to rank
  int tiles;          // of a shard, at most
  uint32_t calls;     // up to this one: a counter rises by WARPS in each

  // [region idea]
  // A warp has stored its rows of a tile to their owner: once they are there, its flag rises.
  GEMM_DEVICE void tell(int owner, int rank, int tile) const {
    if (threadIdx.x % 32 != 0) return;
    tma_store_wait<0>();  // written, and not only read
    signal_add(&sent[owner][rank * tiles + tile], 1);
  }
  // Returns when every other rank has sent its part of this rank's tile: the warp's rows of it.
  GEMM_DEVICE void wait(int ranks, int rank, int tile GEMM_CALLER_ARG) const {
    const int other = threadIdx.x % 32;
    if (other < ranks && other != rank)
      signal_wait(&sent[rank][other * tiles + tile], calls * WARPS GEMM_CALLER_PASS);
    __syncwarp();
  }
  // Adds what they have sent of the 64 rows at (m, n), in the order of ranks from this one on.
  template <int COUNT>
  GEMM_DEVICE void add_received(const Shards& shards, int N, int rank, int m, int n,
                                float (&acc)[COUNT]) const {
#pragma unroll 1
    for (int i = 1; i < shards.ranks; ++i) {
      GemmArgs<T> part{};
      part.M = shards.rows(rank), part.N = N;
      part.C = const_cast<T*>(received) + (rank + i) % shards.ranks * slot, part.ldc = ld;
      part.epilogue = {.alpha = 1, .beta = 1};
      apply_epilogue<16>(part, true, m, n, acc);
    }
  }
  // [/region idea]

  // [region all_reduce]
  // A warp has stored its rows of a finished tile to all ranks: a lane for each raises its flag.
  GEMM_DEVICE void tell_all(int ranks, int rank, int tile) const {
    const int to = threadIdx.x % 32;
    if (to == 0) tma_store_wait<0>();  // written on all ranks
    __syncwarp();
    if (to < ranks) signal_add(&sent[to][(ranks + rank) * tiles + tile], 1);
  }
  // Returns when the owner's finished tile is here.
  GEMM_DEVICE void wait_done(int ranks, int rank, int owner, int tile GEMM_CALLER_ARG) const {
    if (threadIdx.x % 32 == 0)
      signal_wait(&sent[rank][(ranks + owner) * tiles + tile], calls * WARPS GEMM_CALLER_PASS);
    __syncwarp();
  }
  // The 64 rows at (m, n) of the sum.
  template <int COUNT>
  GEMM_DEVICE void read_sum(const GemmArgs<T>& p, int m, int n, float (&acc)[1][COUNT]) const {
    GemmArgs<T> sum = p;
    sum.C = const_cast<T*>(sums), sum.ldc = ld;
    sum.epilogue = {.alpha = 1, .beta = 1};
    clear_registers(acc);
    apply_epilogue<32>(sum, true, m, n, acc[0]);
  }
  // [/region all_reduce]
};

// Where a tile goes, in place of one tensor map: to its owner, or from there to all ranks.
struct Destinations {
  const ShardMaps &one, &all;
  const Shards& shards;
  int shard;
  bool to_all;
};
GEMM_DEVICE void tma_store(const Destinations& to, int row, int col,
                           const void* shared GEMM_CALLER_ARG) {
  using gemm::tma_store;
  if (!to.to_all) return tma_store(to.one.of[to.shard], row, col, shared GEMM_CALLER_PASS);
  int rank = to.shard;  // the own one first, and so on around
#pragma unroll 1
  do {
    tma_store(to.all.of[rank], row, col, shared GEMM_CALLER_PASS);
    rank = rank + 1 < to.shards.ranks ? rank + 1 : 0;
  } while (rank != to.shard);
}

// CLUSTER CTAs have tiles one above the other and share B's loads (v22).
template <class T, Major B_MAJOR, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_m04(GemmArgs<T> p, bool aligned_c, Shards shards, int rank,
             const __grid_constant__ Exchange<T> exchange, const __grid_constant__ TensorMap map_a,
             const __grid_constant__ TensorMap map_b, const __grid_constant__ ShardMaps maps_c,
             const __grid_constant__ ShardMaps maps_sums) {
  using TileA = OperandTile<T, BM, Major::K>;
  using TileB = OperandTile<T, BN, B_MAJOR>;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK), tiles_n = cdiv(p.N, BN);
  const int begin = blockIdx.x / CLUSTER, cta = blockIdx.x % CLUSTER, step = gridDim.x / CLUSTER;
  const int first_shard = rank + 1;
  auto& s = *static_cast<Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, CLUSTER);
  }
  sync_cluster<CLUSTER>();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<PRODUCER_REGS>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    for_each_tile_of_shards<BM * CLUSTER, GROUP_M / CLUSTER>(
        shards, first_shard, begin, step, tiles_n, [&](int shard, int row, int bn) {
          const int bm = row * CLUSTER + cta;
          produce_shared<TileA, TileB, CLUSTER>(s.A[0], s.B[0], s.full, s.empty, state, map_a,
                                                map_b, shards.first(shard) + bm * BM, bn * BN,
                                                k_tiles, cta);
        });
    return;
  }

  // A consumer: every other tile of the CTA.
  setmaxnreg_inc<CONSUMER_REGS>();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  for_each_tile_of_shards<BM * CLUSTER, GROUP_M / CLUSTER>(
      shards, first_shard, begin + wg * step, 2 * step, tiles_n, [&](int shard, int row, int bn) {
        int bm = row * CLUSTER + cta;
        fence_operand(bm, bn);
        float acc[BM / MMA_M][BN / 2];
        multiply_in_turn<TileA, TileB, CLUSTER>(s, state, wg, parity, other, k_tiles, acc);

        // Epilogue: to the tile's owner, or into C. Rows count from the shard's first.
        fence_operand(bm, bn);
        const int tile = bm * tiles_n + bn, n = bn * BN;
        const bool own = shard == rank, all = own && exchange.sums != nullptr;
        const Destinations to{maps_c, maps_sums, shards, shard, all};
        GemmArgs<T> out = p;
        out.M = shards.rows(shard);
        if (own) exchange.wait(shards.ranks, rank, tile);
#pragma unroll
        for (int i = 0; i < BM / MMA_M; ++i) {
          const int m = bm * BM + i * MMA_M;
          fence_operand(acc[i]);
          if (own) exchange.add_received(shards, p.N, rank, m, n, acc[i]);
          store_panels(out, !own || all || aligned_c, to, m, n, staging, i, acc[i]);
        }
        if (!own) exchange.tell(shard, rank, tile);
        if (all) exchange.tell_all(shards.ranks, rank, tile);
      });
  if (exchange.sums != nullptr) {
    // All-reduce: the sum goes into C, but for the own rows where TMA has stored them there. What
    // the other ranks wait for, this consumer has sent.
    for_each_tile_of_shards<BM * CLUSTER, GROUP_M / CLUSTER>(
        shards, first_shard, begin + wg * step, 2 * step, tiles_n, [&](int shard, int row, int bn) {
          if (shard == rank && aligned_c) return;
          const int bm = row * CLUSTER + cta;
          exchange.wait_done(shards.ranks, rank, shard, bm * tiles_n + bn);
          GemmArgs<T> out = p;
          out.M = shards.end(shard);
#pragma unroll 1
          for (int i = 0; i < BM / MMA_M; ++i) {
            const int m = shards.first(shard) + bm * BM + i * MMA_M, n = bn * BN;
            float acc[1][BN / 2];
            exchange.read_sum(out, m, n, acc);
            store_panels(out, aligned_c, maps_c.of[rank], m, n, staging, 0, acc[0]);
          }
        });
  }
  if (tid % 32 == 0) tma_store_wait_read<0>();
  if (CLUSTER > 1) sync_cluster<CLUSTER>();  // the neighbour's last arrivals have come
}

template <class T, int BM, int BN, int STAGES, int EPILOGUE_STAGES, int CLUSTER = 1>
void launch(const GemmArgs<T>& p, const TmaOperands<T>& in, const Shards& shards, int rank,
            const Exchange<T>& exchange, T* const (&slots)[MOST_RANKS],
            T* const (&sums)[MOST_RANKS], int ctas, Stream stream) {
  ShardMaps maps{}, maps_sums{};
  const bool all = exchange.sums != nullptr, aligned = has_aligned_c(p);
  const int first = all ? shards.first(rank) : 0, rows = shards.rows(rank);  // of C, this rank's
  GemmArgs<T> own = p;
  own.M = rows, own.C += first * p.ldc;
  // Columns in whole groups of 16 bytes: a slot's rows end in a gap.
  const auto map_of = [&](T* first, int rows) {
    return tensor_map(first, rows, exchange.ld, exchange.ld, 16, 64, Swizzle::b128);
  };
  for (int i = 0; i < shards.ranks; ++i) {
    maps.of[i] = i == rank ? c_map(all ? p : own, 16) : map_of(slots[i], shards.rows(i));
    if (all)
      maps_sums.of[i] =
          i == rank && aligned ? c_map(own, 16) : map_of(sums[i] + first * exchange.ld, rows);
  }
  // All CTAs must run at once. Clusters of two do on every GPU: SMs come in pairs.
  static_assert(CLUSTER <= 2, "larger clusters may leave SMs of a GPC over");
  const int64_t grid =
      CLUSTER * std::min<int64_t>(ctas / CLUSTER, tiles_of_shards(shards, p.N, BM * CLUSTER, BN));
  with_majors(p, [&](auto, auto b) {
    using TileA = OperandTile<T, BM, Major::K>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(
        gemm_m04<T, b(), BM, BN, STAGES, EPILOGUE_STAGES, CLUSTER>, grid, dim3(THREADS),
        {.smem = sizeof(Shared<TileA, TileB, STAGES, EPILOGUE_STAGES>), .cluster = CLUSTER}, stream,
        p, aligned, shards, rank, exchange, TileA::map(in.A.data, p.M, p.K, in.A.ld),
        TileB::template map<CLUSTER>(in.B.data, p.N, p.K, in.B.ld), maps, maps_sums);
  });
}

// Costs as measured on two H100s, of a result in tiles of 128 x 192 in clusters of two.
constexpr TileCost TILES[] = {{128, 128, 1.25}, {128, 192, 1}, {128, 128, 1.11}};
constexpr int CLUSTERS[] = {1, 2, 2};
template <class T>
constexpr decltype(&launch<T, 128, 128, 6, 2>) LAUNCHES[] = {
    launch<T, 128, 128, 6, 2>, launch<T, 128, 192, 5, 1, 2>, launch<T, 128, 128, 6, 2, 2>};

template <class T>
class PeerStores final : public ShardedGemm {
 public:
  PeerStores(const ShardedProblem& p, Fabric& fabric, int variant) : p_(p), fabric_(fabric) {
    const Shards shards = p.shards();
    const DeviceScope scope(fabric.device(fabric.here()[0]));
    ctas_ = persistent_blocks();
    // Clusters want two rows of tiles: in a shard of one row, half of their CTAs work in vain.
    const bool clusters = variant != ANY_VARIANT || shards.each() > TILES[0].bm;
    tile_ = choose_tile(shards.each(), p.N, TILES, clusters ? std::size(TILES) : 1, sm_count(),
                        variant, p.ranks)
                .index;
    exchange_.ld = exchange_ld(p.N);
    exchange_.slot = shards.each() * exchange_.ld;
    const int cluster = CLUSTERS[tile_];
    exchange_.tiles =
        cdiv(shards.each(), TILES[tile_].bm * cluster) * cluster * cdiv(p.N, TILES[tile_].bn);
    received_.emplace(fabric, p.ranks * exchange_.slot * sizeof(T), "received");
    const bool all = p.collective == Collective::all_reduce;
    if (all) sums_.emplace(fabric, p.M * exchange_.ld * sizeof(T), "sums");
    sent_.emplace(fabric, (all ? 2 : 1) * p.ranks * exchange_.tiles * sizeof(uint32_t), "sent",
                  Fabric::Contents::zeros);
    for (int rank = 0; rank < p.ranks; ++rank) exchange_.sent[rank] = sent_->of<uint32_t>(rank);
  }

  void enqueue(const ShardedCall& call) override {
    if (++exchange_.calls == 1) {
      // A kernel's code is loaded when it is first launched: not while another one waits for it.
      LaunchMode prepare;
      prepare.prepare = true;
      const LaunchModeScope scope(prepare);
      launch_all(call);
    }
    fabric_.join_ranks();  // all have read what the product before sent them
    launch_all(call);
  }

 private:
  // First what may fail on all ranks, memory and copies of operands: kernels wait for each other.
  void launch_all(const ShardedCall& call) {
    std::array<std::optional<TmaOperands<T>>, MOST_RANKS> in;
    for (const int rank : fabric_.here()) {
      const DeviceScope scope(fabric_.device(rank));
      in[rank].emplace(args_of_rank<T>(p_, call[rank]), static_cast<Stream>(fabric_.compute(rank)));
    }
    for (const int rank : fabric_.here()) {
      exchange_.received = received_->of<T>(rank);
      T *slots[MOST_RANKS]{}, *sums[MOST_RANKS]{};  // slots: in each rank's memory, this one's
      for (int i = 0; i < p_.ranks; ++i) {
        slots[i] = received_->of<T>(i) + rank * exchange_.slot;
        if (sums_) sums[i] = sums_->of<T>(i);
      }
      exchange_.sums = sums[rank];
      const DeviceScope scope(fabric_.device(rank));
      LAUNCHES<T>[tile_](args_of_rank<T>(p_, call[rank]), *in[rank], p_.shards(), rank, exchange_,
                         slots, sums, ctas_, static_cast<Stream>(fabric_.compute(rank)));
    }
  }

  const ShardedProblem p_;
  Fabric& fabric_;
  std::optional<SymmetricMemory> received_, sums_, sent_;
  Exchange<T> exchange_{};
  int tile_ = 0, ctas_ = 0;
};

const ShardedRegistration rung(
    {.prev = "m3",
     .idea = "peer stores: partial tiles go to their owner by TMA, which adds them",
     .needs = {.sm = 90, .exact_arch = true},
     .apart = true,
     .variants = {"128x128 s6", "128x192 s5 c2", "128x128 s6 c2"}},
    {sharded<PeerStores<half>>(Collective::reduce_scatter, DType::f16),
     sharded<PeerStores<bf16>>(Collective::reduce_scatter, DType::bf16),
     sharded<PeerStores<half>>(Collective::all_reduce, DType::f16),
     sharded<PeerStores<bf16>>(Collective::all_reduce, DType::bf16)});

}  // namespace
