// Estimated microseconds of the FP32 kernels, for each of their tiles. Host code. Their constants
// are an architecture's (plan/arch.h).
#pragma once

#include <algorithm>
#include <cmath>

#include "device/estimates.h"
#include "plan/overlap.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A row begins at a multiple of 16 bytes.
inline bool aligned_rows(const float* x, int64_t ld) {
  return reinterpret_cast<uintptr_t>(x) % 16 == 0 && ld % 4 == 0;
}

// Split-K tiles, for small results
// -------------------------------------------------------------------------------------------------

struct SplitTile {
  int bm, bn, bk;
  int most_splits;  // of K, a CTA each
  Splits splits = Splits::powers_of_two;
};
inline constexpr SplitTile SPLIT_TILES[] = {
    {16, 64, 64, 32}, {64, 16, 64, 32}, {32, 32, 64, 32}, {32, 64, 64, 8},
    {64, 32, 64, 8},  {64, 64, 32, 8},  {64, 128, 16, 8}, {128, 64, 16, 8},
};
inline constexpr int MAX_CLUSTER = 8;  // CTAs, what every GPU with clusters allows

// Whether the operands that are not K-major have rows of whole groups of 16 bytes.
inline bool whole_groups(const GemmArgs<float>& p) {
  return (p.op_a == Op::N || (aligned_rows(p.A, p.lda) && p.M % 4 == 0)) &&
         (p.op_b == Op::T || (aligned_rows(p.B, p.ldb) && p.N % 4 == 0));
}

constexpr int split_variants() { return count_splits(SPLIT_TILES); }

// A term each for what takes time on an SM.
inline double split_tile_us(const GemmArgs<float>& p, int sms, const FfmaCosts& costs,
                            const SplitTile& tile, int splits) {
  const FfmaCosts::Split& c = costs.split;
  const double bm = tile.bm, bn = tile.bn;
  const double ctas = double(cdiv(p.M, tile.bm)) * cdiv(p.N, tile.bn) * splits;
  const double k = double(cdiv(cdiv(p.K, tile.bk), splits)) * tile.bk;
  // The fullest SM: pairs of CTAs, and perhaps one alone. A cluster lies within one GPC, where some
  // SMs are left over.
  const double filled = sms * (splits >= 4 ? c.clusters_of_four : 1);
  const double most = std::ceil(ctas / filled), pairs = std::floor(most / 2);
  const double alone = most - 2 * pairs, waves = pairs + alone;
  const double cta_times = 2 * pairs + alone / c.alone;  // one after the other
  // Floats of a k that are copied by 4 bytes: of K-major operands, and of all if a row is not whole.
  const bool a_16 = p.op_a == Op::T, b_16 = p.op_b == Op::N;
  const double by_16 = whole_groups(p) ? (a_16 ? bm : 0) + (b_16 ? bn : 0) : 0;
  const double by_4 = bm + bn - by_16;
  const double multiply =
      cta_times * k *
      (c.multiply * 2e-6 * bm * bn / costs.ffma + 1e-6 * (c.copy_4 * by_4 + c.copy_16 * by_16));
  const double bytes = 4e-6 * k * (bm + bn);  // of a CTA; 1e-6: us at 1 TB/s
  const double fetch = std::max(bytes * ctas / c.l2, bytes * most / c.fetch);
  const double loop = overlapping(multiply, fetch, memory_us(p, costs));
  const double store = cta_times * bm * bn * 1e-6 * (c.store + (splits > 1 ? c.send : 0));
  const int parts = std::max(splits / MAX_CLUSTER, 1);
  const double sums =
      (splits > 1 ? c.cluster : 0) + (parts > 1 ? c.second + 8e-6 * parts * p.M * p.N / c.l2 : 0);
  return c.launch + c.wave * (waves - 1) + loop + store + sums;
}

// The fastest, or the one asked for.
inline Estimate best_split_tile(const GemmArgs<float>& p, int sms, const FfmaCosts& costs,
                                int only = ANY_VARIANT) {
  return best_split(SPLIT_TILES, only, [&](const SplitTile& tile, int splits) {
    return split_tile_us(p, sms, costs, tile, splits);
  });
}

// Tiles of whole K, for large results
// -------------------------------------------------------------------------------------------------

struct WholeTile {
  int bm, bn, bk;
  double tflops;    // of a full card
  int per_sm = 1;   // CTAs that share an SM
  int cluster = 1;  // CTAs that share a tile
  bool stream_k = false;
};
inline constexpr WholeTile WHOLE_TILES[] = {
    {128, 256, 16, 54.5}, {128, 256, 16, 53.8, 1, 1, true}, {64, 64, 32, 48.5, 2},
    {64, 128, 32, 50},    {64, 64, 32, 41, 1, 2},           {96, 96, 32, 43.5, 1, 2},
};

// Rows or columns too few for another row or column of large tiles: they get thin ones.
inline int thin_edge(int size, int tile) {
  return tile >= 128 && size > tile && size % tile <= 32 ? size % tile : 0;
}

inline double whole_tile_us(const GemmArgs<float>& p, int sms, const FfmaCosts& c,
                            const WholeTile& tile) {
  const int m = thin_edge(p.M, tile.bm), n = thin_edge(p.N, tile.bn);
  const double tiles = double(cdiv(p.M - m, tile.bm)) * cdiv(p.N - n, tile.bn);
  const double edges = (m > 0 || n > 0) * (5 + 0.011 * p.K);
  const double results = double(tile.bm) * tile.bn, k = cdiv(p.K, tile.bk) * tile.bk;
  // A tile, on an SM; and what a wave begins and ends with, while the cores wait.
  const double us = 2e-6 * results * k / (tile.tflops / sms);
  const double begin_end = c.begin + 1e-6 * results * c.split.store;
  // Rows of whole 16-byte groups, or the operand is repacked; a transposed B always is.
  const int cols_a = p.op_a == Op::N ? p.K : p.M;
  const bool fit_a = aligned_rows(p.A, p.lda) && cols_a % 4 == 0;
  const bool fit_b = p.op_b == Op::N && aligned_rows(p.B, p.ldb) && p.N % 4 == 0;
  const double copied = fit_a && fit_b ? 0
                                       : c.repack + 8e-6 * p.K / c.memory *
                                                        ((fit_a ? 0.0 : p.M) + (fit_b ? 0.0 : p.N));
  if (tile.stream_k) {
    // 26 us hold for tiles of which each has about 4 parts; one SM adds up all parts of a tile.
    const double rest = std::max(std::fmod(tiles, sms), 1.0), parts = sms / rest;
    const double sums = std::max(parts - 4, 0.0) * 4e-6 * results / c.sm_fetch;
    return copied + std::max(tiles / sms * us, memory_us(p, c)) + 26 + sums + edges;
  }
  // A CTA alone on an SM that two could share is slower than half of them.
  const double waves = std::ceil(tiles * tile.cluster / sms);
  const double alone = tile.per_sm == 2 && std::fmod(waves, 2) == 1 ? 1 / c.split.alone - 1 : 0;
  return copied + std::max((waves + alone) * us / tile.cluster, memory_us(p, c)) + edges +
         waves * begin_end + (tile.cluster > 1 ? 7 * waves : 5);
}

// Whether a tile can be used is asked of `fits(i)`; one always can.
template <class Fits>
Estimate best_whole_tile(const GemmArgs<float>& p, int sms, const FfmaCosts& costs, Fits&& fits) {
  Estimate best{2, INFINITY};
  for (int i = 0; i < int(std::size(WHOLE_TILES)); ++i)
    if (const double us = whole_tile_us(p, sms, costs, WHOLE_TILES[i]); us < best.us && fits(i))
      best = {i, us};
  return best;
}

GEMM_BUILD_NAMESPACE_END
