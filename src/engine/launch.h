// Launches of the engine's kernels, as planned (plan/engine.h). Host code.
#pragma once

#include "device/tma_operands.cuh"
#include "device/workspace.h"
#include "engine/gemm.cuh"
#include "engine/problem_of.h"
#include "engine/reduce.cuh"
#include "plan/engine.h"

GEMM_BUILD_NAMESPACE_BEGIN
namespace engine_device {
using namespace engine;  // configurations and cuts

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
  const int units = cut.clusters * cut.parts;
  const int at_a_time = std::min(clusters_at_a_time(arch, size), arch.ctas / size);
  const int grid = std::min(units, std::max(at_a_time, 1)) * size;
  const int64_t tiles = int64_t{cut.clusters} * size,
                of_tile = CONFIG.bx / MMA_X * (cut.height / 8);
  const Workspace sums(cut.parts > 1 ? tiles * cut.parts * of_tile * 128 * sizeof(Sums) : 0,
                       stream);
  Sums* const to = cut.parts > 1 ? sums.as<Sums>() : nullptr;
  const auto start = [&](auto x_major, auto y_major) {
    if constexpr (x_major() == Major::MN || y_major() == Major::K) {  // supports()
      using TileX = OperandTile<T, CONFIG.bx, x_major()>;
      using TileY = OperandTile<T, CONFIG.by, y_major()>;
      gemm::launch(
          gemm_cooperative<Args, CONFIGURATION, x_major(), y_major()>, grid, dim3(CONFIG.threads()),
          {.smem = sizeof(Shared<TileX, TileY, CONFIG.stages>), .cluster = size, .pdl = true},
          stream, p, cut, swapped, to, part_map<TileX>(x, X, p.K, CONFIG.bx, cut.cluster.log_y),
          part_map<TileY>(y, Y, p.K, cut.height, cut.cluster.log_x));
    }
  };
  // B is K-major where it is transposed, A where it is not.
  with_majors(p, [&](auto a, auto b) { swapped ? start(b, a) : start(a, b); });
  if (cut.parts > 1)
    gemm::launch(gemm_reduce<T>, tiles * of_tile, dim3(ADDERS * 128), {.pdl = true}, stream, p,
                 swapped, has_aligned_c(p), cut, CONFIG.bx, sums.as<Sums>());
}

template <class Args, int CONFIGURATION>
void launch_ping_pong(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
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
          gemm_ping_pong<Args, CONFIGURATION, x_major(), is_swapped()>,
          std::min<int64_t>(tiles, arch.ctas), dim3(CONFIG.threads()),
          {.smem = sizeof(PingPongShared<TileX, TileY, CONFIG.stages, CONFIG.epilogue_stages>),
           .pdl = true},
          stream, p, panels, TileX::map(x.data, X, p.K, x.ld), map_y(panels.short_box() + 8),
          map_y(std::max(panels.short_box(), 8)), c_map(p, 8));
    }
  };
  with_majors(p, [&](auto a, auto b) {
    swapped ? start(b, a, std::true_type()) : start(a, b, std::false_type());
  });
}

template <class Args, int CONFIGURATION>
void launch(const Args& p, const Choice& choice, const Arch& arch, Stream stream) {
  if constexpr (CONFIGURATIONS[CONFIGURATION].ping_pong())
    launch_ping_pong<Args, CONFIGURATION>(p, choice, arch, stream);
  else
    launch_cooperative<Args, CONFIGURATION>(p, choice, arch, stream);
}

}  // namespace engine_device
GEMM_BUILD_NAMESPACE_END
