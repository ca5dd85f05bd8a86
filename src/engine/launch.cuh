// How the engine's kernels are launched: what launch.h declares. Host code.
#pragma once

#include <cstring>
#include <vector>

#include "batch.h"
#include "device/tma_operands.cuh"
#include "device/workspace.h"
#include "engine/gemm.cuh"
#include "engine/launch.h"
#include "engine/problem_of.h"
#include "engine/tiles.cuh"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using namespace engine;  // configurations and cuts

// Adds up the sums of all parts of K and stores C (reduce.cu).
template <class T>
void add_parts(const GemmArgs<T>& p, const Choice& choice, const Arch& arch, const Sums* sums,
               Stream stream);

// The tensor map of an operand of mn x k, in boxes of one part of a tile of `extent`.
template <class Tile, class T>
TensorMap part_map(const Repacked<T>& operand, int mn, int k, int extent, int log_ctas) {
  const int rows = part_rows<Tile>(extent, log_ctas);
  return tensor_map(operand.data, Tile::ALONG_K ? mn : k, Tile::ALONG_K ? k : mn, operand.ld, rows,
                    Tile::WIDTH, Tile::MODE);
}

template <class Args, int CONFIGURATION>
void launch_cooperative(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
  using T = typename Args::TypeA;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  const Rectangle& cut = choice.cut;
  const bool swapped = choice.swapped;
  const TmaOperands<T> in(p, stream);
  const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N, size = cut.cluster.size();
  const Repacked<T>&x = swapped ? in.B : in.A, &y = swapped ? in.A : in.B;
  const int units = cut.clusters() * cut.parts, ctas = cut.in_cluster ? cut.parts : size;
  const int at_a_time = std::min(clusters_at_a_time(arch, size), arch.ctas / size);
  const int grid = cut.in_cluster ? units : std::min(units, std::max(at_a_time, 1)) * size;
  const int64_t tiles = int64_t{cut.clusters()} * size;
  const int of_tile = CONFIG.bx / MMA_X * (cut.height / 8);
  const bool adds_later = cut.parts > 1 && !cut.in_cluster;
  const Workspace sums(adds_later ? tiles * cut.parts * of_tile * 128 * sizeof(Sums) : 0, stream);
  Sums* const to = adds_later ? sums.as<Sums>() : nullptr;
  const auto start = [&](auto x_major, auto y_major) {
    if constexpr (x_major() == Major::MN || y_major() == Major::K) {  // supports()
      using TileX = OperandTile<T, CONFIG.bx, x_major()>;
      using TileY = OperandTile<T, CONFIG.by, y_major()>;
      const int bytes = KTileLoads<TileX, TileY>(cut).bytes;
      const auto whole_sectors = [](const Repacked<T>& operand) {
        return row_requests(operand.data, operand.ld) != RowRequests::half;
      };
      int stages = std::min(Shared::ROOM / bytes, Shared::MOST_STAGES);
      if (cut.in_cluster) {
        // Room for sums beside k-tiles is worth more than the stages beyond four.
        const UnitShares owned{of_tile, cut.parts};
        const int beside = (Shared::ROOM - owned.most * owned.split * Shared::UNIT) / bytes;
        if (beside >= 4) stages = std::min(stages, beside);
      }
      gemm::launch(gemm_cooperative<Args, CONFIGURATION, x_major(), y_major()>, grid,
                   dim3(CONFIG.threads()), {.smem = sizeof(Shared), .cluster = ctas, .pdl = true},
                   stream, p, cut, stages, swapped, has_aligned_c(p),
                   WholeSectors{whole_sectors(x), whole_sectors(y)}, to,
                   part_map<TileX>(x, X, p.K, CONFIG.bx, cut.sharing().log_y),
                   part_map<TileY>(y, Y, p.K, cut.height, cut.sharing().log_x));
    }
  };
  // B is K-major where it is transposed, A where it is not.
  with_majors(p, [&](auto a, auto b) { swapped ? start(b, a) : start(a, b); });
  if (adds_later) add_parts(p, choice, arch, sums.as<Sums>(), stream);
}

template <class Args, int CONFIGURATION>
void launch_row_panels(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
  using T = typename Args::TypeA;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  const RowPanels& panels = choice.panels;
  const bool swapped = choice.swapped;
  const TmaOperands<T> in(p, stream);
  const int X = swapped ? p.N : p.M, Y = swapped ? p.M : p.N;
  const Repacked<T>&x = swapped ? in.B : in.A, &y = swapped ? in.A : in.B;
  const int64_t tiles = panels.tiles(0, false) + panels.tiles(0, true) + panels.tiles(1, false) +
                        panels.tiles(1, true);
  using TileY = OperandTile<T, CONFIG.by, Major::K>;
  const auto map_y = [&](int rows) {
    return tensor_map(y.data, Y, p.K, y.ld, rows, BK, TileY::MODE);
  };
  const auto start = [&](auto x_major, auto y_major, auto is_swapped) {
    if constexpr (y_major() == Major::K) {  // supports()
      using TileX = OperandTile<T, CONFIG.bx, x_major()>;
      gemm::launch(
          gemm_row_panels<Args, CONFIGURATION, x_major(), is_swapped()>,
          std::min<int64_t>(tiles, arch.ctas), dim3(CONFIG.threads()),
          {.smem = sizeof(PingPongShared<TileX, TileY, CONFIG.stages, CONFIG.epilogue_stages>),
           .pdl = true},
          stream, p, panels, choice.forwards, TileX::map(x.data, X, p.K, x.ld),
          map_y(panels.short_box() + 8), map_y(std::max(panels.short_box(), 8)), c_map(p, 8));
    }
  };
  with_majors(p, [&](auto a, auto b) {
    swapped ? start(b, a, std::true_type()) : start(a, b, std::false_type());
  });
}

// Rows of tiles per raster group. With a short K storing C decides: one row of tiles after the other,
// so that whole rows of C are stored at a time, which memory takes up to a tenth faster.
inline int rows_of_group(int K) { return K <= 4 * BK ? 1 : GROUP_M; }

template <class Args, int CONFIGURATION, Products PRODUCTS>
void launch_tiles(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
  using T = typename Args::TypeA;
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  constexpr int BM = CONFIG.bx, BN = CONFIG.by;
  constexpr bool BATCH = PRODUCTS == Products::batch, GROUPS = PRODUCTS == Products::groups;
  const int64_t tiles = tiles_of_batch(p, BM, BN);
  // A pair of CTAs with neighbouring tiles is launched as a cluster, so that it has a TPC alone.
  const Pairs pairs = PRODUCTS == Products::one ? choice.tiling.pairs : Pairs::none;
  const int cluster = pairs == Pairs::none ? 1 : 2;
  const int64_t units = pairs == Pairs::none ? tiles : (tiles + 1) / 2;
  const int64_t grid = std::min<int64_t>(units, arch.ctas / cluster) * cluster;
  const Raster raster{raster_group_size(std::max(cdiv(p.M, BM), 1), rows_of_group(p.K)),
                      pairs == Pairs::rows ? 2 : 1,
                      PRODUCTS == Products::one && choice.tiling.b_stays};
  const TmaOperands<T> in(p, stream);
  const auto batch = [&](bool has_several, int64_t stride) {
    return has_several ? MatrixBatch{p.batch.count, stride} : MatrixBatch{};
  };
  const auto start = [&](auto a, auto b) {
    using TileA = OperandTile<T, BM, a()>;
    using TileB = OperandTile<T, BN, b()>;
    gemm::launch(
        gemm_tiles<Args, CONFIGURATION, a(), b(), PRODUCTS>, grid, dim3(CONFIG.threads()),
        {.smem = sizeof(TilesShared<TileA, TileB, CONFIG.stages, CONFIG.epilogue_stages>),
         .cluster = cluster,
         .pdl = true},
        stream, p, has_aligned_c(with_columns_of_d(p)), raster,
        TileA::map(in.A.data, p.M, p.K, in.A.ld, 256, batch(BATCH, p.batch.stride_a)),
        TileB::map(in.B.data, p.N, p.K, in.B.ld, 256, batch(BATCH || GROUPS, p.batch.stride_b)),
        c_map(with_columns_of_d(p), 16, batch(BATCH, p.batch.stride_c)));
  };
  with_majors(p, [&](auto a, auto b) {
    if constexpr (takes_majors(PRODUCTS, a(), b())) start(a, b);
  });
}

// A batch's ends of groups, in the host's memory: waits until the stream has written them.
inline std::vector<int32_t> ends_of_groups(const Batch& batch, Stream stream) {
  std::vector<int32_t> ends(batch.count);
  const size_t bytes = ends.size() * sizeof ends[0];
#if GEMM_ON_GPU
  cudaError_t error =
      cudaMemcpyAsync(ends.data(), batch.ends, bytes, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) {
    cudaGetLastError();
    throw_failed("the ends of the groups cannot be read", cudaGetErrorString(error));
  }
#else
  if (sim::runtime::is_queued(stream))
    throw_failed("groups on a stream of sim::Devices", "their ends are not known yet");
  memcpy(ends.data(), batch.ends, bytes);
#endif
  return ends;
}

// Calls launch(product) for each product of a batch that one launch cannot take. Launches that are only
// prepared have no ends to read: one of all rows stands for its groups.
template <class Args, class Launch>
void for_each_product(const Args& p, Stream stream, Launch&& launch) {
  if (p.batch.ends == nullptr) {
    for (int i = 0; i < products_to_launch(p.batch); ++i) launch(product_of(p, i));
  } else if (launch_mode().prepare) {
    launch(group_of(p, 0, 0, p.M));
  } else {
    for_each_group(ends_of_groups(p.batch, stream), p.M,
                   [&](int group, int first, int end) { launch(group_of(p, group, first, end)); });
  }
}

// One product; of equal tiles also a batch, in one launch. Other batches are launched
// product by product.
template <class Args, int CONFIGURATION>
void launch(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
  constexpr Configuration CONFIG = CONFIGURATIONS[CONFIGURATION];
  constexpr bool TILES = CONFIG.schedule == Schedule::tiles;
  if constexpr (!Args::FUSED) {
    if constexpr (TILES && std::is_same_v<typename Args::TypeA, typename Args::TypeC>)
      if (fits_in_one_launch(p))
        return p.batch.ends == nullptr
                   ? launch_tiles<Args, CONFIGURATION, Products::batch>(p, choice, arch, stream)
                   : launch_tiles<Args, CONFIGURATION, Products::groups>(p, choice, arch, stream);
    if (!p.batch.is_single())
      return for_each_product(p, stream, [&](const Args& one) {
        launch<Args, CONFIGURATION>(one, choice, arch, stream);
      });
  }
  if constexpr (TILES)
    launch_tiles<Args, CONFIGURATION, Products::one>(p, choice, arch, stream);
  else if constexpr (CONFIG.schedule == Schedule::row_panels)
    launch_row_panels<Args, CONFIGURATION>(p, choice, arch, stream);
  else
    launch_cooperative<Args, CONFIGURATION>(p, choice, arch, stream);
}

template <class T, int CONFIGURATION>
void Launches<T, CONFIGURATION>::plain(const GemmArgs<T>& p, const Choice& choice, const Arch& arch,
                                       Stream stream) {
  launch<GemmArgs<T>, CONFIGURATION>(p, choice, arch, stream);
}

template <class T, int CONFIGURATION>
void Launches<T, CONFIGURATION>::fused(const FusedArgs<T>& p, const Choice& choice,
                                       const Arch& arch, Stream stream) {
  if constexpr (HAS_FUSED) launch<FusedArgs<T>, CONFIGURATION>(p, choice, arch, stream);
}

template <class T, int CONFIGURATION>
void Launches<T, CONFIGURATION>::gated(const GatedArgs<T>& p, const Choice& choice,
                                       const Arch& arch, Stream stream) {
  if constexpr (HAS_GATED) launch<GatedArgs<T>, CONFIGURATION>(p, choice, arch, stream);
}

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
