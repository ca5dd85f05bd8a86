// A configuration of the engine's kernel: the tile and who computes it. A literal value.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace gemm::engine {

// Which tiles a CTA computes, and how its consumer warpgroups share them.
enum class Schedule {
  rectangle,   // tiles of one extent, by the plan, in clusters: each consumer has rows of each
  row_panels,  // tiles of two neighbouring extents along y, ping-pong: each consumer has whole tiles
  tiles,       // tiles of bx x by, ping-pong: also of batches and groups, and of any layout
};

// The tile and the pipeline of a kernel. x runs along wgmma's rows, y along its columns. A kernel
// has a main loop for each extent along y from `shortest` to `by`, in steps of 8 columns: where the
// schedule is tiles, for one.
struct Configuration {
  int bx, shortest, by;
  int stages = 0;  // of the pipeline; 0: the launch counts how many fit (cooperative)
  Schedule schedule = Schedule::rectangle;
  int epilogue_stages = 0;  // of 64 x 64 results: ping-pong

  GEMM_HOST_DEVICE constexpr bool ping_pong() const { return schedule != Schedule::rectangle; }
  // Number of consumer warpgroups. Ping-pong: two, each with tiles of its own. Cooperative: one for
  // each 64 rows; where bx is 256, two with 128 rows each.
  GEMM_HOST_DEVICE constexpr int warpgroups() const {
    return ping_pong() || bx == 256 ? 2 : bx / 64;
  }
  GEMM_HOST_DEVICE constexpr int threads() const { return (warpgroups() + 1) * 128; }
  // Registers of a thread after setmaxnreg; 0: as launched, which is enough for one consumer.
  GEMM_HOST_DEVICE constexpr int producer_registers() const {
    return warpgroups() == 1 ? 0 : warpgroups() == 3 ? 32 : ping_pong() ? 24 : 40;
  }
  GEMM_HOST_DEVICE constexpr int consumer_registers() const {
    return warpgroups() == 1 ? 0 : warpgroups() == 3 ? 160 : ping_pong() ? 240 : 232;
  }
};

// The configurations that are compiled ahead of time. Their order is that of the variants' names.
inline constexpr Configuration CONFIGURATIONS[] = {
    {64, 16, 128},
    {128, 16, 256},
    {192, 16, 192},
    {256, 16, 192},
    {128, 136, 192, 5, Schedule::row_panels, 1},
    {64, 72, 128, 8, Schedule::row_panels, 2},
    {128, 192, 192, 5, Schedule::tiles, 1},
    {128, 128, 128, 6, Schedule::tiles, 2},
    {64, 128, 128, 8, Schedule::tiles, 2},
};
inline constexpr int TO_FLOAT = 7;  // the one whose results may be float
inline constexpr int CONFIGURATION_COUNT = sizeof CONFIGURATIONS / sizeof *CONFIGURATIONS;

// CTAs of a cluster along x and along y: powers of two, by which a kernel divides with a shift.
struct ClusterShape {
  int log_x, log_y;
  GEMM_HOST_DEVICE constexpr int x() const { return 1 << log_x; }
  GEMM_HOST_DEVICE constexpr int y() const { return 1 << log_y; }
  GEMM_HOST_DEVICE constexpr int log_size() const { return log_x + log_y; }
  GEMM_HOST_DEVICE constexpr int size() const { return 1 << log_size(); }
};

// C cut into tiles of one extent, in clusters, and K into parts: the schedule of cooperative kernels.
struct Rectangle {
  ClusterShape cluster;
  bool multicast;              // a cluster's CTAs load k-tiles for each other; else each its own
  int height;                  // of a tile along y, a multiple of 8
  int clusters_x, clusters_y;  // that cover C
  int parts;  // of K. More than one: sums go to memory, and a second kernel adds them up
  // Or the parts of a tile are CTAs of a cluster, which add up: one tile a CTA, `cluster` is 1 x 1.
  bool in_cluster;

  GEMM_HOST_DEVICE constexpr int clusters() const { return clusters_x * clusters_y; }
  // CTAs among which a k-tile's loads are divided.
  GEMM_HOST_DEVICE constexpr ClusterShape sharing() const {
    return multicast ? cluster : ClusterShape{0, 0};
  }
  struct Tile {
    int x, y;
  };
  // Raster order: along the side of C with fewer tiles first. Neighbouring CTAs mostly run on one
  // GPC, so L2 gets their requests for the same rows as one: up to 1.4 times as fast.
  // [region raster]
  GEMM_HOST_DEVICE constexpr bool y_first() const {  // y has fewer tiles
    return clusters_y * cluster.y() < clusters_x * cluster.x();
  }
  GEMM_HOST_DEVICE constexpr Tile tile(int nth_cluster, int rank) const {
    const int side = y_first() ? clusters_y : clusters_x;
    const int slow = nth_cluster / side, fast = nth_cluster - slow * side;
    return {((y_first() ? slow : fast) << cluster.log_x) + (rank & (cluster.x() - 1)),
            ((y_first() ? fast : slow) << cluster.log_y) + (rank >> cluster.log_x)};
  }
  // [/region raster]
};

}  // namespace gemm::engine
