// Estimated microseconds of the kernels of 16-bit wgmma. Host code. Its constants are an
// architecture's (plan/arch.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Terms that overlap, added as the sides of a box are, with an exponent of 2.5 instead of 2.
inline double overlapping_us(double a, double b, double c = 0) {
  const auto power = [](double t) { return t * t * std::sqrt(t); };
  return std::pow(power(a) + power(b) + power(c), 1 / 2.5);
}
// Time for A, B and C to come from memory and go there, once.
template <class T>
double memory_us(const GemmArgs<T>& p, const WgmmaCosts& c) {
  const double m = p.M, n = p.N, k = p.K;
  return sizeof(T) * 1e-6 * (m * k + k * n + m * n * (p.epilogue.reads_c() ? 2 : 1)) / c.memory;
}

// Persistent kernels, for large results
// -------------------------------------------------------------------------------------------------

// Of a kernel whose last SM computes `makespan` results, in tiles of cost 1 (Costs), of `products`
// of a batch.
template <class T>
double persistent_us(const GemmArgs<T>& p, const Arch& arch, double makespan, int products = 1) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double multiply = makespan * (p.K + c.epilogue_k) * 2e-6 / c.tensor;
  return c.persistent_launch + overlapping_us(multiply, products * memory_us(p, c));
}

// Tiles with K split among the CTAs of a cluster, for few results
// -------------------------------------------------------------------------------------------------

struct SplitKTile {
  int bx, by;           // along C's long side, and along the short one
  int per_sm = 1;       // CTAs that share an SM
  int most_splits = 8;  // variants: 1, 2, 4, ... CTAs of a cluster share a tile, and its K
};
inline constexpr SplitKTile SPLIT_K_TILES[] = {
    {64, 16},   {64, 32},   {64, 64},       {128, 64},
    {128, 128}, {128, 256}, {64, 16, 2, 1}, {128, 64, 2, 1},
};
inline constexpr int MAX_SPLIT = 8;
constexpr int split_k_variants() {
  int n = 0;
  for (const SplitKTile& tile : SPLIT_K_TILES)
    for (int split = 1; split <= tile.most_splits; split *= 2) ++n;
  return n;
}

struct SplitKEstimate {
  int variant = 0;
  double us = 0;
};

template <class T>
double split_k_us(const GemmArgs<T>& p, const Arch& arch, const SplitKTile& tile, int split) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double x = std::max(p.M, p.N), y = std::min(p.M, p.N);
  const double ctas = std::ceil(x / tile.bx) * std::ceil(y / tile.by) * split;
  const double k = std::ceil(std::ceil(p.K / 64.0) / split) * 64;
  // The fullest SM's CTAs. A cluster lies within one GPC, where some SMs are left over.
  const double filled = arch.sms * (split >= 4 ? c.clusters_of_four : 1);
  const double most = std::ceil(ctas / filled), waves = std::ceil(most / tile.per_sm);
  const double multiply = most * k * 2e-6 * tile.bx * (tile.by + c.narrow) / c.tensor;
  const double bytes = 2e-6 * k * (tile.bx + tile.by);
  const double fetch = std::max(bytes * ctas / c.l2, bytes * most / c.fetch);
  const double loop = overlapping_us(multiply, fetch, memory_us(p, c));
  const double results = most * tile.bx * tile.by * 1e-6;
  return c.launch + c.wave * (waves - 1) + loop + results * c.store +
         (split > 1 ? c.cluster + results * c.send : 0);
}

// The fastest, or the one asked for.
template <class T>
SplitKEstimate best_split_k_tile(const GemmArgs<T>& p, const Arch& arch, int only) {
  SplitKEstimate best{0, INFINITY};
  int variant = 0;
  for (const SplitKTile& tile : SPLIT_K_TILES)
    for (int split = 1; split <= tile.most_splits; split *= 2, ++variant)
      if (only == ANY_VARIANT || only == variant)
        if (const double us = split_k_us(p, arch, tile, split); us < best.us) best = {variant, us};
  return best;
}

GEMM_BUILD_NAMESPACE_END
