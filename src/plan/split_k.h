// Estimated microseconds of the wgmma kernels that share K, for few results. Host only.
#pragma once

#include "plan/arch.h"
#include "plan/problem.h"
#include "plan/splits.h"

namespace gemm {

// Tiles with K split among the CTAs of a cluster.
struct SplitKTile {
  int bx, by;                             // along C's long side, and along the short one
  Splits splits = Splits::powers_of_two;  // how many CTAs of a cluster share a tile, and its K
  int per_sm = 1;                         // CTAs that share an SM
  int most_splits = 8;
};
inline constexpr SplitKTile SPLIT_K_TILES[] = {
    {64, 16},
    {64, 32},
    {64, 64},
    {128, 64},
    {128, 128, Splits::all},
    {128, 256, Splits::all},
    {64, 16, Splits::powers_of_two, 2, 1},
    {128, 64, Splits::powers_of_two, 2, 1},
};
inline constexpr int MAX_SPLIT = 8;
constexpr int split_k_variants() { return count_splits(SPLIT_K_TILES); }

// Narrow stream-K: tiles' k-tiles in equal shares, one a CTA, one CTA per SM.
struct StreamKTile {
  int bx, by;  // along C's long side, and along the short one
};
inline constexpr StreamKTile STREAM_K_TILES[] = {{64, 16},  {64, 32},   {64, 64},
                                                 {64, 128}, {128, 128}, {128, 256}};

// The fastest variant, or the one asked for.
Estimate best_split_k_tile(const PlannedProblem& p, const Arch& arch, int only);
Estimate best_stream_k_tile(const PlannedProblem& p, const Arch& arch, int only);

}  // namespace gemm
