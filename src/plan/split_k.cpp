#include "plan/split_k.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "plan/estimate.h"

namespace gemm {
namespace {

// Memory's time where the SM with most fetches `uneven` times the mean, or some fetch nothing. Beyond 2
// it is the limit of an SM that counts (fetch).
double uneven_memory_us(const PlannedProblem& p, const WgmmaCosts& c, double uneven) {
  return memory_us(p, c.memory) * std::pow(std::clamp(uneven, 1.0, 2.0), c.uneven);
}

// Tiles of bx along C's long side and by along the short one.
double flat_tiles(const PlannedProblem& p, int bx, int by) {
  return std::ceil(std::max(p.M, p.N) / double(bx)) * std::ceil(std::min(p.M, p.N) / double(by));
}

// The main loops of such tiles: `all_k` is the sum of their depths, `most_k` that on one SM.
double flat_loop_us(const PlannedProblem& p, const WgmmaCosts& c, int sms, int bx, int by,
                    double all_k, double most_k) {
  const double multiply = most_k * 2e-6 * bx * (by + c.narrow) / c.tensor;
  // A narrow tile that is not K-major comes in as many rows, of 32 or 64 bytes, as a wide one.
  const bool y_is_a = p.M <= p.N, y_k_major = y_is_a ? p.a_k_major : p.b_k_major;
  const double a = requests(p.a, c), b = requests(p.b, c);
  const double x = 2e-6 * bx * (y_is_a ? b : a);
  const double y = 2e-6 * (y_k_major ? by : std::max(by, 64)) * (y_is_a ? a : b);
  const double fetch = (x + y) * std::max(all_k / c.l2, most_k / c.fetch);
  const double uneven = all_k > 0 ? most_k * sms / all_k : 1;
  return overlapping(multiply, fetch, uneven_memory_us(p, c, uneven));
}

// What the last tiles of an SM, of so many million results, take besides: an epilogue, and rows of C
// that are not in whole 16 bytes.
double end_us(const PlannedProblem& p, const Costs& costs, double results) {
  return results * (epilogue_us(p, costs.engine) + (p.aligned_c ? 0 : costs.engine.apart));
}

// The CTAs of a cluster exchange `results` million sums each, in `split` parts, add them up and store.
double exchange_us(const WgmmaCosts& c, double results, int split) {
  return (split > 1 ? c.cluster + results * c.exchange : 0) + results / split * c.add;
}

double split_k_us(const PlannedProblem& p, const Arch& arch, const SplitKTile& tile, int split) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double ctas = flat_tiles(p, tile.bx, tile.by) * split;
  const double k = std::ceil(std::ceil(p.K / 64.0) / split) * 64;
  // The fullest SM's CTAs. A cluster lies within one GPC, where some SMs are left over.
  const double filled = arch.sms * c.clusters[split];
  const double most = std::ceil(ctas / filled), waves = std::ceil(most / tile.per_sm);
  const double loop = flat_loop_us(p, c, arch.sms, tile.bx, tile.by, ctas * k, most * k);
  // All CTAs of a cluster end their tile.
  const double results = most * tile.bx * tile.by * 1e-6;
  return c.launch + copies_us(p, arch.costs->engine) + c.wave * (waves - 1) + loop +
         exchange_us(c, results, split) + end_us(p, *arch.costs, results / split);
}

double stream_k_us(const PlannedProblem& p, const Arch& arch, const StreamKTile& tile) {
  WgmmaCosts c = arch.costs->wgmma;
  c.memory *= c.stream_memory;
  const double tiles = flat_tiles(p, tile.bx, tile.by);
  const int k_tiles = std::max(1, ceil_div(p.K, 64));
  const double ctas = std::min(tiles * k_tiles, double(arch.sms));
  const double share = std::ceil(tiles * k_tiles / ctas) * 64;
  const double loop = flat_loop_us(p, c, arch.sms, tile.bx, tile.by, tiles * k_tiles * 64, share);
  // A tile is stored once. Each CTA but the first stores its sums, which the first reads, one CTA's after
  // the other's.
  const double results = tile.bx * tile.by * 1e-6, stores = std::ceil(tiles / ctas);
  const double parts = std::fmod(tiles, ctas) == 0 ? 0 : std::ceil(ctas / tiles);
  return c.launch + copies_us(p, arch.costs->engine) + loop + results * stores * c.store +
         end_us(p, *arch.costs, results * stores) +
         (parts > 0 ? c.fixup + parts * (c.part + results * c.send) : 0);
}

}  // namespace

Estimate best_split_k_tile(const PlannedProblem& p, const Arch& arch, int only) {
  return best_split(SPLIT_K_TILES, only, [&](const SplitKTile& tile, int split) {
    return split_k_us(p, arch, tile, split);
  });
}

Estimate best_stream_k_tile(const PlannedProblem& p, const Arch& arch, int only) {
  Estimate best{0, INFINITY};
  for (int i = 0; i < int{std::size(STREAM_K_TILES)}; ++i)
    if (only == ANY_VARIANT || only == i)
      if (const double us = stream_k_us(p, arch, STREAM_K_TILES[i]); us < best.us) best = {i, us};
  return best;
}

}  // namespace gemm
