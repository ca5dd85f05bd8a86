// Estimated microseconds of the kernels of 16-bit wgmma. Host code. Its constants are an
// architecture's (plan/arch.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "device/estimates.h"
#include "plan/overlap.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Persistent kernels, for large results
// -------------------------------------------------------------------------------------------------

// How much of K a tile's epilogue takes as long as: what it has besides alpha. It counts where no
// main loop hides it, as after a CTA's last tile.
template <class T>
double epilogue_k(const FusedArgs<T>& p, const Costs& costs) {
  const FusedEpilogue& e = p.fused;
  const Costs::Epilogue& c = costs.epilogue_k;
  return (e.reads_c() ? c.residual : 0) + (e.has_vectors() ? c.vectors : 0) +
         (info(e.activation).roundings > 1 ? c.activation : 0);
}
// The same as a part of the tile's own time.
template <class T>
double epilogue_waves(const FusedArgs<T>& p, const Costs& costs) {
  return epilogue_k(p, costs) / (p.K + costs.wgmma.epilogue_k);
}

// Of a kernel whose last SM computes `makespan` results, in tiles of cost 1 (Costs), of `products`
// of a batch.
template <class T>
double persistent_us(const GemmArgs<T>& p, const Arch& arch, double makespan, int products = 1) {
  if (std::min(p.M, p.N) <= 16) return NEVER;  // three quarters of a tile would be empty
  const WgmmaCosts& c = arch.costs->wgmma;
  const double multiply = makespan * (p.K + c.epilogue_k) * 2e-6 / c.tensor;
  // A row or column of both operands for every 64 results, as in tiles of 128 x 128.
  const double fetch = makespan / 64 * p.K * 2e-6 / c.fetch;
  return c.persistent_launch + overlapping(multiply, fetch, products * memory_us(p, c));
}

// Tiles with K split among the CTAs of a cluster, for few results
// -------------------------------------------------------------------------------------------------

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

template <class T>
double split_k_us(const FusedArgs<T>& p, const Arch& arch, const SplitKTile& tile, int split) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double x = std::max(p.M, p.N), y = std::min(p.M, p.N);
  const double ctas = std::ceil(x / tile.bx) * std::ceil(y / tile.by) * split;
  const double k = std::ceil(std::ceil(p.K / 64.0) / split) * 64;
  // The fullest SM's CTAs. A cluster lies within one GPC, where some SMs are left over.
  const double filled = arch.sms * c.clusters[split];
  const double most = std::ceil(ctas / filled), waves = std::ceil(most / tile.per_sm);
  const double multiply = most * k * 2e-6 * tile.bx * (tile.by + c.narrow) / c.tensor;
  // A narrow tile that is not K-major comes in as many rows, of 32 or 64 bytes, as a wide one.
  const bool y_k_major = p.M <= p.N ? p.op_a == Op::N : p.op_b == Op::T;
  const double bytes = 2e-6 * k * (tile.bx + (y_k_major ? tile.by : std::max(tile.by, 64)));
  const double fetch = std::max(bytes * ctas / c.l2, bytes * most / c.fetch);
  const double loop = overlapping(multiply, fetch, memory_us(p, c));
  const double results = most * tile.bx * tile.by * 1e-6;
  // All CTAs of a cluster end their tile.
  const double epilogue = results * epilogue_k(p, *arch.costs) * 2 / c.tensor / split;
  return c.launch + c.wave * (waves - 1) + loop + results * c.store + epilogue +
         (split > 1 ? c.cluster + results * c.send : 0);
}

// The fastest, or the one asked for.
template <class T>
Estimate best_split_k_tile(const FusedArgs<T>& p, const Arch& arch, int only) {
  return best_split(SPLIT_K_TILES, only, [&](const SplitKTile& tile, int split) {
    return split_k_us(p, arch, tile, split);
  });
}

GEMM_BUILD_NAMESPACE_END
