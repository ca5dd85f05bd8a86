#include "plan/ffma.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "plan/estimate.h"
#include "plan/ffma_correction.h"

namespace gemm {
namespace {

// A term each for what takes time on an SM, and a factor that has learnt how they act together
// (scripts/fit_ffma.py, with its inputs in this order).
double split_tile_us(const PlannedProblem& p, const Arch& arch, const SplitTile& tile, int splits) {
  const FfmaCosts& costs = arch.costs->fp32;
  const int sms = arch.sms;
  const FfmaCosts::Split& c = costs.split;
  const double bm = tile.bm, bn = tile.bn;
  const double tiles = std::max(1.0, double(ceil_div(p.M, tile.bm)) * ceil_div(p.N, tile.bn));
  const double ctas = tiles * splits;
  const double k_tiles = ceil_div(ceil_div(p.K, tile.bk), splits), k = k_tiles * tile.bk;
  // The fullest SM: pairs of CTAs, and perhaps one alone. A cluster lies within one GPC, where some
  // SMs are left over.
  const int together = arch.clusters ? std::min(splits, MAX_CLUSTER) : 1;  // CTAs of a cluster
  const double filled = sms * c.clusters[together];
  const double most = std::ceil(ctas / filled), pairs = std::floor(most / 2);
  const double alone = most - 2 * pairs, waves = pairs + alone;
  const double cta_times = 2 * pairs + alone / c.alone;  // one after the other
  // Floats of a k that are copied by 4 bytes: of K-major operands, and of all if a row is not whole.
  const bool a_16 = !p.a_k_major, b_16 = !p.b_k_major, whole = whole_groups(p);
  const double by_16 = whole ? (a_16 ? bm : 0) + (b_16 ? bn : 0) : 0;
  const double by_4 = bm + bn - by_16;
  const double multiply =
      cta_times * k *
      (c.multiply * 2e-6 * bm * bn / costs.ffma + 1e-6 * (c.copy_4 * by_4 + c.copy_16 * by_16));
  const double bytes = 4e-6 * k * (bm + bn);  // of a CTA; 1e-6: us at 1 TB/s
  const double fetch = std::max(bytes * ctas / c.l2, bytes * most / c.fetch);
  const double memory = memory_us(p, costs.memory);
  const double loop = overlapping(multiply, fetch, memory);
  const double store = cta_times * bm * bn * 1e-6 * (c.store + (together > 1 ? c.send : 0));
  const int parts = splits / together;
  const double sums =
      (together > 1 ? c.cluster : 0) + (parts > 1 ? c.second + 8e-6 * parts * p.M * p.N / c.l2 : 0);
  const auto part_of = [&](double us) { return float(multiply / (multiply + us + 1e-9)); };
  float inputs[] = {
      // clang-format off
      0, 0, 0, 0, 0, 0, 0,  // 1 for the tile
      // clang-format on
      1 / float(together),
      float(parts > 1),
      1 / float(waves),
      float(alone),
      float(most / (most + 4)),
      float(ctas / (most * sms)),
      part_of(fetch),
      part_of(memory),
      part_of(10),
      float(p.a_k_major),
      float(p.b_k_major),
      float(whole),
      float(p.aligned_c),
      float(p.M * double(p.N) / (tiles * bm * bn)),
      float(k_tiles / (k_tiles + 8)),
      float(by_4 / (bm + bn)),
  };
  static_assert(std::size(SPLIT_TILES) == 7);
  inputs[&tile - SPLIT_TILES] = 1;
  return (c.launch + c.wave * (waves - 1) + loop + store + sums) * ffma::CORRECTION.factor(inputs);
}

}  // namespace

bool whole_groups(const PlannedProblem& p) {
  return (p.a_k_major || (p.a_aligned && p.M % 4 == 0)) &&
         (p.b_k_major || (p.b_aligned && p.N % 4 == 0));
}

Estimate best_split_tile(const PlannedProblem& p, const Arch& arch, int only) {
  Estimate best{.us = NEVER};
  for_each_split([&](int variant, const SplitTile& tile, int splits) {
    if (only != ANY_VARIANT && only != variant) return;
    if (const double us = split_tile_us(p, arch, tile, splits); us < best.us)
      best = {variant, splits, us};
  });
  return best;
}

int thin_edge(int size, int tile) {
  return tile >= 128 && size > tile && size % tile <= 32 ? size % tile : 0;
}

double whole_tile_us(const PlannedProblem& p, const Arch& arch, const WholeTile& tile) {
  const FfmaCosts& c = arch.costs->fp32;
  const int sms = arch.sms;
  const int m = thin_edge(p.M, tile.bm), n = thin_edge(p.N, tile.bn);
  const double tiles = double(ceil_div(p.M - m, tile.bm)) * ceil_div(p.N - n, tile.bn);
  const double edges = (m > 0 || n > 0) * (5 + 0.011 * p.K);
  const double results = double(tile.bm) * tile.bn, k = ceil_div(p.K, tile.bk) * tile.bk;
  // A tile, on an SM; and what a wave begins and ends with, while the cores wait.
  const double us = 2e-6 * results * k / (tile.tflops / sms);
  const double begin_end = c.begin + 1e-6 * results * c.split.store;
  // Rows of whole 16-byte groups, or the operand is repacked; a transposed B always is.
  const int cols_a = p.a_k_major ? p.K : p.M;
  const bool fit_a = p.a_aligned && cols_a % 4 == 0;
  const bool fit_b = !p.b_k_major && p.b_aligned && p.N % 4 == 0;
  const double copied = fit_a && fit_b ? 0
                                       : c.repack + 8e-6 * p.K / c.memory *
                                                        ((fit_a ? 0.0 : p.M) + (fit_b ? 0.0 : p.N));
  if (tile.stream_k) {
    // 26 us hold for tiles of which each has about 4 parts; one SM adds up all parts of a tile.
    const double rest = std::max(std::fmod(tiles, sms), 1.0), parts = sms / rest;
    const double sums = std::max(parts - 4, 0.0) * 4e-6 * results / c.sm_fetch;
    return copied + std::max(tiles / sms * us, memory_us(p, c.memory)) + 26 + sums + edges;
  }
  // A CTA alone on an SM that two could share is slower than half of them.
  const double waves = std::ceil(tiles * tile.cluster / sms);
  const double alone = tile.per_sm == 2 && std::fmod(waves, 2) == 1 ? 1 / c.split.alone - 1 : 0;
  return copied + std::max((waves + alone) * us / tile.cluster, memory_us(p, c.memory)) + edges +
         waves * begin_end + (tile.cluster > 1 ? 7 * waves : 5);
}

}  // namespace gemm
