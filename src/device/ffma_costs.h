// Estimated microseconds of the FP32 kernels, for each of their tiles. Host code.
#pragma once

#include <algorithm>
#include <cmath>

#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// A GPU's constants, an H200's. `memory`, `ffma` and the rates of WHOLE_TILES are measured
// (plots/results/h200); the others are guesses until they are fitted. To fit them: measure every
// variant at random shapes (gemm_bench --tune --shapes), take the constants with the least sum of
// squares of log(estimated / measured), and report the error at shapes left out.
struct FfmaCosts {
  double ffma = 0.496;       // TFLOPS of an SM, if every issue slot is an FFMA
  double memory = 4.2;       // TB/s from memory
  double l2 = 5.5;           // TB/s from L2
  double sm_fetch = 0.06;    // TB/s into one SM
  double launch = 3;         // us of a kernel that does nothing, and of its first load's latency
  double wave = 1;           // us to begin and end another wave of CTAs
  double cluster = 1;        // us in which the CTAs of a cluster wait and send their sums
  double second = 2;         // us of a kernel that begins when the one before ends
  double repack = 4;         // us to repack operands, beside their bytes
  double by_4_bytes = 1.05;  // how much longer copies of 4 bytes take than of 16
};
inline constexpr FfmaCosts FFMA_COSTS;

struct FfmaEstimate {
  int variant = 0;  // index in its table
  double us = 0;
};

// A row begins at a multiple of 16 bytes.
inline bool aligned_rows(const float* x, int64_t ld) {
  return reinterpret_cast<uintptr_t>(x) % 16 == 0 && ld % 4 == 0;
}
// Time for A, B and C to come from memory and go there, once.
inline double memory_us(const GemmArgs<float>& p) {
  const double m = p.M, n = p.N, k = p.K;
  return 4e-6 * (m * k + k * n + m * n * (p.beta != 0 ? 2 : 1)) / FFMA_COSTS.memory;
}
// Time of an SM for k of a tile, at `rate` of its full speed.
inline double tile_us(double bm, double bn, double k, double rate) {
  return 2e-6 * bm * bn * k / (FFMA_COSTS.ffma * rate);
}

// Tiles whose K is cut into pieces, for small results
// -------------------------------------------------------------------------------------------------

struct CutTile {
  int bm, bn, bk;
  int most_cuts;  // variants: 1, 2, 4, ... pieces, a CTA each
  double rate;    // with two CTAs on an SM
};
inline constexpr CutTile CUT_TILES[] = {
    {16, 64, 64, 32, 0.45}, {64, 16, 64, 32, 0.45}, {32, 32, 64, 32, 0.58}, {32, 64, 64, 8, 0.64},
    {64, 32, 64, 8, 0.62},  {64, 64, 32, 8, 0.74},  {64, 128, 16, 8, 0.74}, {128, 64, 16, 8, 0.74},
};
inline constexpr int MAX_CLUSTER = 8;      // CTAs, what every GPU with clusters allows
inline constexpr double CUT_ALONE = 0.75;  // rate of one CTA on an SM, of that of two

constexpr int cut_variants() {
  int n = 0;
  for (const CutTile& tile : CUT_TILES)
    for (int cuts = 1; cuts <= tile.most_cuts; cuts *= 2) ++n;
  return n;
}

inline double cut_tile_us(const GemmArgs<float>& p, int sms, const CutTile& tile, int cuts) {
  const FfmaCosts& c = FFMA_COSTS;
  const double ctas = double(cdiv(p.M, tile.bm)) * cdiv(p.N, tile.bn) * cuts;
  const double k = double(cdiv(cdiv(p.K, tile.bk), cuts)) * tile.bk;
  // The fullest SM: pairs of CTAs, and perhaps one alone.
  const double most = std::ceil(ctas / sms), pairs = std::floor(most / 2), alone = most - 2 * pairs;
  const bool a_16 = p.op_a == Op::T, b_16 = p.op_b == Op::N;  // not K-major
  const bool by_4 = (a_16 && !(aligned_rows(p.A, p.lda) && p.M % 4 == 0)) ||
                    (b_16 && !(aligned_rows(p.B, p.ldb) && p.N % 4 == 0)) || !(a_16 || b_16);
  const double multiply = tile_us(tile.bm, tile.bn, k, tile.rate) *
                          (2 * pairs + alone / CUT_ALONE) * (by_4 ? c.by_4_bytes : 1);
  const double bytes = 4e-6 * k * (tile.bm + tile.bn);  // of a CTA; 1e-6: us at 1 TB/s
  const double fetch = std::max(bytes * ctas / c.l2, bytes * most / c.sm_fetch);
  const int parts = std::max(cuts / MAX_CLUSTER, 1);
  const double sums =
      (cuts > 1 ? c.cluster : 0) + (parts > 1 ? c.second + 8e-6 * parts * p.M * p.N / c.l2 : 0);
  return c.launch + c.wave * (pairs + alone - 1) + sums + std::max({multiply, fetch, memory_us(p)});
}

// The fastest, or the one asked for.
inline FfmaEstimate best_cut_tile(const GemmArgs<float>& p, int sms, int only = ANY_VARIANT) {
  FfmaEstimate best{0, INFINITY};
  int variant = 0;
  for (const CutTile& tile : CUT_TILES)
    for (int cuts = 1; cuts <= tile.most_cuts; cuts *= 2, ++variant)
      if (only == ANY_VARIANT || only == variant)
        if (const double us = cut_tile_us(p, sms, tile, cuts); us < best.us) best = {variant, us};
  return best;
}

// Tiles of whole K, for large results
// -------------------------------------------------------------------------------------------------

struct WholeTile {
  int bm, bn;
  double tflops;  // of a full card
  int cluster = 1;
  bool stream_k = false;
};
inline constexpr WholeTile WHOLE_TILES[] = {
    {128, 256, 54.5}, {128, 256, 53.8, 1, true}, {64, 64, 48.5},
    {64, 128, 50},    {64, 64, 41, 2},           {96, 96, 43.5, 2},
};

// Rows or columns too few for another row or column of large tiles: they get thin ones.
inline int thin_edge(int size, int tile) {
  return tile >= 128 && size > tile && size % tile <= 32 ? size % tile : 0;
}

inline double whole_tile_us(const GemmArgs<float>& p, int sms, const WholeTile& tile) {
  const FfmaCosts& c = FFMA_COSTS;
  const int m = thin_edge(p.M, tile.bm), n = thin_edge(p.N, tile.bn);
  const double tiles = double(cdiv(p.M - m, tile.bm)) * cdiv(p.N - n, tile.bn);
  const double edges = (m > 0 || n > 0) * (5 + 0.011 * p.K);
  const double us = 2e-6 * tile.bm * tile.bn * p.K / (tile.tflops / sms);  // a tile, on an SM
  // Rows of whole 16-byte groups, or the operand is repacked.
  const int cols_a = p.op_a == Op::N ? p.K : p.M, cols_b = p.op_b == Op::N ? p.N : p.K;
  const bool fit_a = aligned_rows(p.A, p.lda) && cols_a % 4 == 0;
  const bool fit_b = aligned_rows(p.B, p.ldb) && cols_b % 4 == 0;
  const double copied = fit_a && fit_b ? 0
                                       : c.repack + 8e-6 * p.K / c.memory *
                                                        ((fit_a ? 0.0 : p.M) + (fit_b ? 0.0 : p.N));
  if (tile.stream_k) return copied + std::max(tiles / sms * us, memory_us(p)) + 26 + edges;
  const double waves = std::ceil(tiles * tile.cluster / sms);
  return copied + std::max(waves * us / tile.cluster, memory_us(p)) + edges +
         (tile.cluster > 1 ? 7 * waves : 5);
}

// Whether a tile can be used is asked of `fits(i)`; one always can.
template <class Fits>
FfmaEstimate best_whole_tile(const GemmArgs<float>& p, int sms, Fits&& fits) {
  FfmaEstimate best{2, INFINITY};
  for (int i = 0; i < int(std::size(WHOLE_TILES)); ++i)
    if (const double us = whole_tile_us(p, sms, WHOLE_TILES[i]); us < best.us && fits(i))
      best = {i, us};
  return best;
}

GEMM_BUILD_NAMESPACE_END
