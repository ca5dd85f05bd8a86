// What planning knows of a GPU: how much of everything it has, and what things cost there.
#pragma once

#include <cstddef>
#include <string>

namespace gemm {

// What a kernel's choices cost on one architecture. Times are relative: 1 is a result of a tile of
// 128 x 192 in a kernel whose tensor cores never wait. Measured, see plots/NOTES.md.
struct Costs {
  // A result, by tile: larger tiles read less for each.
  struct Tile {
    int bm, bn;
    double cost;
    double shared_waves = 0;  // waves that it takes to share out the tiles of a part of a wave
  };
  Tile whole[3];    // whole tiles in each wave
  Tile cluster[3];  // the same as cluster tiles of two CTAs, where rows straddle 128-byte lines
  Tile stream_k[2];
  double fixup_k;              // a stream-K fixup takes as long as so much of K
  double straddled_stream_k;   // factor on stream-K where rows straddle 128-byte lines
  double straddled_clusters;   // the same for M tiles of variable height in clusters
  double transposed_epilogue;  // results that a CTA could compute while it stores its last tile
  // B-stationary tiles: a result, by k-tiles of 64 (index 0 .. 8), the first load of B in waves, and
  // the factor where a CTA goes on to other columns.
  double b_stationary[9], b_stationary_load, b_stationary_next;
};

struct Arch {
  std::string name = "NVIDIA H200";
  int sms = 0;               // streaming multiprocessors
  int ctas = 0;              // persistent CTAs that run at once: one an SM, fewer in the simulator
  bool clusters = false;     // thread block clusters: Hopper and later
  size_t shared_memory = 0;  // of a CTA that asks for more than 48 KiB; bytes
  const Costs* costs = nullptr;
};

// The costs of the GPU with this name; those of an H200 for all that were not measured.
const Costs& costs_of(const std::string& gpu);

// The GPU that the simulator stands for: an H200. Few persistent CTAs, so that in small problems
// too each computes several tiles.
const Arch& simulated_arch();

}  // namespace gemm
