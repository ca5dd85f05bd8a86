// The engine's GEMM kernel: wgmma on tiles of any extent, for every configuration (config.h).
//
//   role        threads      waits for      then                       and tells
//   producer    one          empty[stage]   loads its part of X for    full[stage], of all that get
//                                           its row of CTAs, of Y for  it
//                                           its column
//   consumers   1 to 3       full[stage]    wgmma of their rows, or    empty[stage] of all that
//               warpgroups   (order[wg])    of whole tiles by turns    load for them, a k-tile
//                                                                      later (order[other])
//
//   barrier        completes after
//   full[stage]    1 arrival, the producer's, and TMA's bytes, from all CTAs of the row and column
//   empty[stage]   1 arrival of each consumer that reads it, of each CTA of the row and column
//   order[wg]      ping-pong: 4 arrivals, one of each warp of the other consumer
//
// X is A and Y is B; swapped, the other way round, and C^T is computed: then tiles are cut finely
// along C's rows. Taught in v27.
#pragma once

#include "device/dynamic_shared.cuh"
#include "device/fused_epilogue.cuh"
#include "device/launch.h"
#include "device/multicast.cuh"
#include "device/operand_tile.cuh"
#include "device/pipeline.cuh"
#include "device/ptx/cluster.cuh"
#include "device/ptx/grid.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/tma.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/row_panels.cuh"
#include "device/tma_epilogue.cuh"
#include "device/vec.cuh"
#include "device/wgmma_main_loop.cuh"
#include "engine/cluster_sums.cuh"
#include "engine/config.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using namespace engine;  // configurations and cuts

constexpr int BK = 64, MMA_X = 64;  // depth of a k-tile; rows of a wgmma

// Where a consumer leaves its sums over a part of K: four of a thread in a unit of 64 x 8.
using Sums = Vec<float>;

// Shared memory of cooperative kernels: a CTA's 227 KiB. First come the stages of the pipeline, as
// many as fit. A stage is X, (BX, BK) or, MN-major, (BX / 64, BK, 64), then Y of a tile's height. Its
// size is a multiple of 1024 bytes. Behind the last stage there may be room for the sums of a
// cluster's CTAs; there they wait for no k-tile.
struct Shared {
  static constexpr int MOST_STAGES = 13, ROOM = 227 * 1024 - 2 * MOST_STAGES * 8;
  static constexpr int UNIT = 128 * sizeof(Sums);
  uint8_t room[ROOM];
  uint64_t full[MOST_STAGES], empty[MOST_STAGES];
};
template <class TileX, class TileY, int STAGES, int EPILOGUE_STAGES>
struct PingPongShared {             // every panel starts at a multiple of 1024 bytes
  uint8_t X[STAGES][TileX::BYTES];  // (STAGES, BX, BK) or, MN-major, (STAGES, BX / 64, BK, 64)
  uint8_t Y[STAGES][TileY::BYTES];  // (STAGES, BY, BK) or, MN-major, (STAGES, BY / 64, BK, 64)
  uint8_t C[2][EPILOGUE_STAGES][64 * 64 * 2];  // (consumer, EPILOGUE_STAGES, 64, 64), swizzled
  uint64_t full[STAGES], empty[STAGES], order[2];
};

// Rows of shared memory in the part of a tile that each of 2^log_ctas CTAs loads: of its MN rows,
// in whole swizzle atoms, or of its 64 k.
template <class Tile>
GEMM_HOST_DEVICE int part_rows(int mn, int log_ctas) {
  return Tile::ALONG_K ? (mn + (8 << log_ctas) - 1) >> (3 + log_ctas) << 3 : BK >> log_ctas;
}

// Sizes of a k-tile's loads, divided among a cluster's CTAs. rows_x, rows_y and panels (of Y): what
// one CTA loads. bytes: what a CTA receives, a stage's size, which may be more rows than the tile has.
template <class TileX, class TileY>
struct KTileLoads {
  int rows_x, rows_y, panels, bytes;
  GEMM_HOST_DEVICE explicit KTileLoads(const Rectangle& cut) {
    const ClusterShape sharing = cut.sharing();
    rows_x = part_rows<TileX>(TileX::EXTENT, sharing.log_y);
    rows_y = part_rows<TileY>(cut.height, sharing.log_x);
    panels = TileY::ALONG_K ? 1 : cdiv(cut.height, TileY::WIDTH);
    bytes = (rows_x << sharing.log_y) * TileX::PANELS * TileX::ROW_BYTES +
            (rows_y << sharing.log_x) * panels * TileY::ROW_BYTES;
  }
};

// Whether an operand's rows begin at sectors of L2, 32 bytes.
struct WholeSectors {
  bool x, y;
};

// C cut off at the end of a tile of `height` along y.
template <class Args>
GEMM_DEVICE Args cut_off(const Args& p, bool swapped, int end) {
  Args tile = p;
  if (swapped)
    tile.M = p.M < end ? p.M : end;
  else
    tile.N = p.N < end ? p.N : end;
  return tile;
}

template <int AT_ONCE, bool MAY_BE_LOW = false, class Args, int COUNT>
GEMM_DEVICE void store_tile(const Args& tile, bool swapped, int x, int y, float (&acc)[COUNT]) {
  fence_operand(acc);
  if (swapped) {
    apply_epilogue_transposed<AT_ONCE>(tile, y, x, acc);
    store_transposed<MAY_BE_LOW>(tile, y, x, acc);
  } else {
    apply_epilogue<AT_ONCE>(tile, true, x, y, acc);
    store_accumulators_aligned<MAY_BE_LOW>(tile, x, y, acc);
  }
}

// Cooperative consumers. The CTAs of a cluster load k-tiles for each other, run side by side, or have
// parts of K.
// `sums`: for the second kernel, (tiles, parts, BX / 64 * height / 8 units, 128); or null.
template <class Args, int CONFIGURATION, Major X_MAJOR, Major Y_MAJOR>
__global__ void __launch_bounds__(CONFIGURATIONS[CONFIGURATION].threads(), 1)
    gemm_cooperative(Args p, Rectangle cut, int stages, bool swapped, bool aligned_c,
                     WholeSectors sectors, Sums* sums, const __grid_constant__ TensorMap map_x,
                     const __grid_constant__ TensorMap map_y) {
  grid_launch_dependents();  // first: CTAs take a while to start
  using T = typename Args::TypeA;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  using TileX = OperandTile<T, CONFIG.bx, X_MAJOR>;
  using TileY = OperandTile<T, CONFIG.by, Y_MAJOR>;
  constexpr int CONSUMERS = CONFIG.warpgroups();
  constexpr int BX = CONFIG.bx, BY = CONFIG.by, BLOCKS = BX / CONSUMERS / MMA_X;
  const int tid = threadIdx.x, wg = warpgroup();
  const bool adds = cut.in_cluster;
  const int cta = cluster_rank(), rank = adds ? 0 : cta;
  // CTAs that load for each other, and this CTA's place among them.
  const ClusterShape sharing = cut.sharing();
  const int size_x = sharing.x(), size_y = sharing.y();
  const int rank_x = rank & (size_x - 1), rank_y = cut.multicast ? rank >> sharing.log_x : 0;
  // CTAs with the same rows of X and with the same of Y, as bits: built for CTA (0, 0), then
  // shifted to this one's place.
  uint32_t share_x = 1;
  for (int i = 1; i < size_y; ++i) share_x |= share_x << size_x;
  share_x <<= rank_x;
  const uint32_t share_y = ((1 << size_x) - 1) << rank_y * size_x;

  auto& s = *static_cast<Shared*>(dynamic_shared());
  if (tid == 0)
    init_pipeline<Shared::MOST_STAGES>(s.full, s.empty, CONSUMERS * (size_x + size_y - 1));
  const KTileLoads<TileX, TileY> loads(cut);
  const int pipeline = stages * loads.bytes, spare = (s.ROOM - pipeline) / s.UNIT;
  // A CTA that loads for itself has no cluster to wait for: 0.6 us less.
  const bool alone = size_x * size_y == 1;
  // Who adds up which units of a tile, and whether their parts have a place beside k-tiles.
  const UnitShares owned{BX / MMA_X * cut.height / 8, adds ? cut.parts : 1};
  const int received = owned.most * owned.split;
  const bool beside = received <= spare;
  if (!alone || (adds && beside)) cluster_arrive();
  if (alone) __syncthreads();
  if (!alone) cluster_wait();  // the others' barriers are there
  // By all threads: all of the cluster's CTAs have room for sums, then all sums have come.
  const auto wait_for_room = [&] {
    if (!beside) cluster_arrive();  // this CTA's k-tiles have been read
    cluster_wait();
  };
  const auto wait_for_sums = [] {
    cluster_arrive();
    cluster_wait();
  };

  // Calls work(x, y, part, cluster) for every tile and part of K of this CTA.
  const auto for_each_unit = [&](auto&& work) {
    const int log_size = cut.cluster.log_size(), clusters = cut.clusters();
    const int units = clusters * cut.parts, step = adds ? units : gridDim.x >> log_size;
    const int first = adds ? cta * clusters + blockIdx.x / cut.parts : blockIdx.x >> log_size;
    for (int i = first; i < units; i += step) {
      const int part = cut.parts == 1 ? 0 : i / clusters, nth = i - part * clusters;
      const auto [x, y] = cut.tile(nth, rank);
      work(x * BX, y * cut.height, part, nth);
    }
  };
  const int all_k_tiles = cdiv(p.K, BK);
  // 16 parts of 2^25 k-tiles fit in an int. Division takes hundreds of cycles.
  const auto k_begin = [&](int part) {
    return cut.parts == 1 ? all_k_tiles * part : all_k_tiles * part / cut.parts;
  };

  CountedPipelineState state{stages};
  if (wg == CONSUMERS) {
    // The producer.
    if constexpr (CONFIG.producer_registers() > 0) setmaxnreg_dec<CONFIG.producer_registers()>();
    if (tid / 32 % 4 == 0 && elect_one()) {
      // An operand that no other CTA needs comes without multicast.
      // L2 joins plain loads of CTAs on one GPC, but no multicasts. Rows that begin inside a sector
      // keep multicast: plain loads make more requests there, and are up to 3 % slower.
      const bool alone_x = alone || (size_y == 1 && sectors.x);
      const bool alone_y = alone || (size_x == 1 && sectors.y);
      for_each_unit([&](int x, int y, int part, int) {
        const int begin = k_begin(part), end = k_begin(part + 1);
        grid_dependency_wait(x | y, begin | end);  // after the divisions for the first tile
        // [region multicast]
        const auto load = [&](int stage, int k_tile) {
          const int k = k_tile * BK;
          uint64_t* const full = &s.full[stage];
          uint8_t* const to = s.room + stage * loads.bytes;
          load_part_for<TileX>(to, map_x, x, k, full, share_x, rank_y * loads.rows_x, alone_x);
          load_part_for<TileY>(to + TileX::BYTES, map_y, y, k, full, share_y, rank_x * loads.rows_y,
                               alone_y, loads.panels);
        };
        load_k_tiles(s.full, s.empty, state, begin, end, loads.bytes, load);
        // [/region multicast]
      });
    }
    if (adds) {
      __syncwarp();
      wait_for_room();
      wait_for_sums();
    }
  } else {
    // A consumer: BLOCKS x MMA_X rows of every tile.
    if constexpr (CONFIG.consumer_registers() > 0) setmaxnreg_inc<CONFIG.consumer_registers()>();
    const int other = tid % 128;
    const bool shares = other < size_x * size_y && ((share_x | share_y) >> other & 1) != 0;
    const auto release = [&](int stage) {
      if (alone) {
        if (other == 0) mbarrier_arrive(&s.empty[stage]);
      } else if (shares) {
        mbarrier_arrive_remote(&s.empty[stage], other);
      }
    };
    for_each_unit([&](int x, int y, int part, int nth) {
      const int row = wg * BLOCKS * MMA_X;
      const int k_tiles = k_begin(part + 1) - k_begin(part);
      const Args tile = cut_off(p, swapped, y + cut.height);
      if (sums == nullptr && !adds) {
        if (swapped)
          prefetch_c<BLOCKS * MMA_X>(tile, true, y, x + row, cut.height);
        else
          prefetch_c<BY>(tile, true, x + row, y, BLOCKS * MMA_X);
      }
      float acc[BLOCKS][BY / 2] = {};
      fence_operand(acc);
      int last = 0;
      // [region height]
      with_height<CONFIG.shortest, BY>(cut.height, [&](auto height) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile, last = state.stage, state.advance()) {
          mbarrier_wait(&s.full[state.stage], state.phase);
          const uint8_t* const from = s.room + state.stage * loads.bytes;
          multiply_k_tile<TileX, TileY, decltype(height)::value>(acc, from, from + TileX::BYTES,
                                                                 row);
          wgmma_wait<1>();
          if (k_tile > 0) release(last);
        }
      });
      // [/region height]
      wgmma_wait<0>();
      if (k_tiles > 0) release(last);

      grid_dependency_wait();
      // [region sums]
      if (adds) {
        uint8_t* const begin = s.room;
        Sums* const parts = reinterpret_cast<Sums*>(beside ? begin + pipeline : begin);
        wait_for_room();
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i)
          send_units(parts, owned, part, (wg * BLOCKS + i) * cut.height / 8, cut.height / 8,
                     acc[i]);
        wait_for_sums();
        // Rows of results take the place of k-tiles.
        float* const rows = reinterpret_cast<float*>(beside ? begin : begin + received * s.UNIT);
        const int room = beside ? pipeline : s.ROOM - received * s.UNIT;
        store_sums<CONSUMERS * 128>(p, parts, rows, room / int(UNIT_ROOM * sizeof(float)), owned,
                                    cut.parts, part, swapped, aligned_c,
                                    [&](int unit, int& to_x, int& to_y) {
                                      to_x = x + unit / (cut.height / 8) * MMA_X;
                                      to_y = y + unit % (cut.height / 8) * 8;
                                    });
        return;
      }
      // [/region sums]
      if (sums != nullptr) {
        const int units = cut.height / 8, size = cut.cluster.size();
        const int64_t place = int64_t{nth * size + rank} * cut.parts + part;
        Sums* to = sums + (place * (BX / MMA_X) + wg * BLOCKS) * units * 128 + tid % 128;
        fence_operand(acc);
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i, to += units * 128)
#pragma unroll
          for (int u = 0; u < BY / 8; ++u) {
            if (u >= units) break;
            Sums four = {};
#pragma unroll
            for (int e = 0; e < 4; ++e) four.set(e, acc[i][u * 4 + e]);
            to[u * 128] = four;
          }
      } else {
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i)
          store_tile<32, true>(tile, swapped, x + row + i * MMA_X, y, acc[i]);
      }
    });
  }
  if (alone) return;
  __syncwarp();  // the producer's warp is one again
  cluster_arrive();
  cluster_wait();  // the others' last k-tiles and arrivals have come
}

// Ping-pong consumers on row panels: tiles of neighbouring heights along y that fill all waves.
template <class Args, int CONFIGURATION, Major X_MAJOR, bool SWAPPED>
__global__ void __launch_bounds__(CONFIGURATIONS[CONFIGURATION].threads(), 1)
    gemm_row_panels(Args p, RowPanels panels, bool forwards,
                    const __grid_constant__ TensorMap map_x,
                    const __grid_constant__ TensorMap map_tall,
                    const __grid_constant__ TensorMap map_short,
                    const __grid_constant__ TensorMap map_c) {
  grid_launch_dependents();  // first, as above
  using T = typename Args::TypeA;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  using TileX = OperandTile<T, CONFIG.bx, X_MAJOR>;
  using TileY = OperandTile<T, CONFIG.by, Major::K>;
  constexpr int BX = CONFIG.bx, BY = CONFIG.by, STAGES = CONFIG.stages;
  const int tid = threadIdx.x, wg = warpgroup(), k_tiles = cdiv(p.K, BK);
  auto& s =
      *static_cast<PingPongShared<TileX, TileY, STAGES, CONFIG.epilogue_stages>*>(dynamic_shared());
  if (tid == 0) {
    init_ordered_barrier(s.order);
    init_pipeline<STAGES>(s.full, s.empty, 1);
  }
  __syncthreads();

  PipelineState<STAGES> state;
  if (wg == 2) {
    // The producer.
    setmaxnreg_dec<CONFIG.producer_registers()>();
    if (tid / 32 % 4 != 0 || !elect_one()) return;
    // Every other tile starts at the end of K, whose k-tiles are still in L2, if it may.
    int nth = 0;
    for_each_panel(panels, blockIdx.x, gridDim.x, [&](int x, int y, int height, int64_t) {
      const TensorMap& map_y = height > panels.short_box() ? map_tall : map_short;
      grid_dependency_wait(x, y);  // after the first tile's coordinates have been computed
      produce<TileX, TileY>(s.X[0], s.Y[0], s.full, s.empty, state, map_x, map_y, x * BX, y, 0,
                            k_tiles, TileX::BYTES + panels.box(height) * BK * 2,
                            !forwards && nth++ % 2 == 1);
    });
    return;
  }

  // A consumer: every other tile of the CTA.
  setmaxnreg_inc<CONFIG.consumer_registers()>();
  grid_dependency_wait();
  auto& staging = s.C[wg];
  uint64_t* const other = order_of_other(s.order, wg);
  uint32_t parity = wg ^ 1;  // of order[wg]; consumer 0 begins
  state.skip(wg * k_tiles);
  const int first = blockIdx.x + wg * gridDim.x;
  // The other consumer may begin one k-tile early: it first branches to its tile's height.
  const int signal_k_tile = k_tiles > 1 ? k_tiles - 2 : 0;
  for_each_panel(panels, first, 2 * gridDim.x, [&](int x, int y, int height, int64_t left) {
    if constexpr (SWAPPED) {
      prefetch_c<BX>(p, true, y, x * BX, height);
      touch_vectors<BY, true>(p, y);
    } else {
      prefetch_c<BY>(p, true, x * BX, y, BX);
      touch_vectors<BY>(p, y);
    }
    float acc[BX / MMA_X][BY / 2];
    clear_registers(acc);  // before the wait, while the other consumer computes
    int last = 0;
    if (k_tiles > 0) mbarrier_wait(&s.order[wg], parity++ & 1);
    with_height<CONFIG.shortest, BY>(height, [&](auto extent) {
      const auto multiply = [&](int stage, int k_tile) {
        multiply_k_tile<TileX, TileY, decltype(extent)::value>(acc, s.X[stage], s.Y[stage]);
        if (k_tile == signal_k_tile && tid % 32 == 0) mbarrier_arrive(other);
      };
      last = multiply_k_tiles<1>(s.full, s.empty, state, k_tiles, multiply);
    });
    finish_k_tiles<1>(s.empty, k_tiles, last);
    state.skip(k_tiles);  // the other consumer's tile

    // Epilogue.
    const Args tile = cut_off(p, SWAPPED, y + height);
    constexpr int AT_ONCE = BY <= 160 ? BY / 2 : BY / 4;
#pragma unroll
    for (int i = 0; i < BX / MMA_X; ++i) {
      const int x0 = x * BX + i * MMA_X;
      // The CTA's last tile no main loop hides. C in place of C^T is stored as fast without TMA.
      if (!SWAPPED || left <= gridDim.x) {
        store_tile<SWAPPED ? AT_ONCE : 32>(tile, SWAPPED, x0, y, acc[i]);
      } else {
        fence_operand(acc[i]);
        apply_epilogue_transposed<AT_ONCE>(tile, y, x0, acc[i]);
        store_panels_transposed(tile, map_c, y, x0, staging, i, acc[i]);
      }
    }
  });
  if (tid % 32 == 0) tma_store_wait_read<0>();
}

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
