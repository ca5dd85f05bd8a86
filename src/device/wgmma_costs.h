// Estimated microseconds of the kernels of 16-bit wgmma. Host code. Its constants are an
// architecture's (plan/arch.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>

#include "device/estimates.h"
#include "device/tma.h"
#include "device/wgmma_epilogue.cuh"
#include "plan/overlap.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Copies of the operands that TMA cannot address (repack.cuh): a kernel before the kernel.
template <class T>
double repack_us(const GemmArgs<T>& p, const WgmmaCosts& c) {
  double elements = 0;
  if (!tma_can_address(p.A, p.lda)) elements += double(p.M) * p.K;
  if (!tma_can_address(p.B, p.ldb)) elements += double(p.K) * p.N;
  if (elements == 0) return 0;
  return c.copies.launch + 2 * sizeof(T) * elements * 1e-6 / (c.memory * c.copies.memory);
}

// Requests to L2 for 128 bytes of an operand's row. Copies have whole lines.
template <class T, class Costs>
double requests_of_row(const T* base, int64_t ld, const Costs& c) {
  if (!straddles_lines(base, ld)) return 1;
  constexpr int SECTOR = 32;
  const bool whole =
      reinterpret_cast<uintptr_t>(base) % SECTOR == 0 && ld * sizeof(T) % SECTOR == 0;
  return whole ? c.sectors : c.half;
}

// Storing so many million results of an SM one by one takes longer than 16 bytes at a time.
template <class T>
double apart_us(const GemmArgs<T>& p, const WgmmaCosts& c, double results) {
  return has_aligned_c(p) ? 0 : results * c.apart;
}

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
// The epilogue's time as a part of the tile's own time.
template <class T>
double epilogue_waves(const FusedArgs<T>& p, const Costs& costs) {
  return epilogue_k(p, costs) / (p.K + costs.wgmma.epilogue_k);
}

// Memory's time where the SM with most fetches `uneven` times the mean, or some fetch nothing. Beyond 2
// it is the limit of an SM that counts (fetch).
template <class T>
double uneven_memory_us(const GemmArgs<T>& p, const WgmmaCosts& c, double uneven) {
  return memory_us(p, c) * std::pow(std::clamp(uneven, 1.0, 2.0), c.uneven);
}

// What a persistent kernel reads.
struct Reads {
  // Rows of A and columns of B for each result, in tiles of 128 x 128.
  static constexpr double ROWS = 1 / 64.;
  double requests = 0;  // to L2 by all SMs, of 128 bytes, for 64 of K. 0: never the limit
  // Each SM that works is alone in its TPC, whose two SMs share the way to L2.
  bool alone = false;
};
// What it takes to read B `passes` times where L2 has lost it (Costs::rows_of_pass): CTAs that read
// the same are apart when a pass begins, so that it hides behind nothing. L2 keeps about KEPT bytes.
template <class T>
double second_reading_us(const GemmArgs<T>& p, const Arch& arch, double passes) {
  constexpr double KEPT = 24e6;
  const double again = sizeof(T) * double(p.K) * p.N * (passes - 1) - KEPT;
  return arch.costs->rows_of_pass == 0 ? 0 : std::max(0.0, again) * 1e-6 / arch.costs->wgmma.memory;
}

// A persistent kernel's time: its last SM computes `makespan` results, in tiles of cost 1 (Costs).
// `products`: of a batch.
template <class T>
double persistent_us(const GemmArgs<T>& p, const Arch& arch, double makespan, int products = 1,
                     Reads reads = {}) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double multiply = makespan * (p.K + c.epilogue_k) * 2e-6 / c.tensor;
  const double fetch =
      makespan * Reads::ROWS * p.K * 2e-6 / (c.fetch * (reads.alone ? c.alone : 1));
  // How many times the mean the busiest SM computes: few CTAs also begin sooner.
  const double uneven = makespan * arch.sms / (double(p.M) * p.N * products);
  const double launch = c.persistent_launch + c.persistent_full / std::max(uneven, 1.0);
  const double memory = products * uneven_memory_us(p, c, uneven / (reads.alone ? 2 : 1));
  const double l2 = std::max(fetch, reads.requests * p.K * 2e-6 / c.l2);
  const double loop = overlapping(multiply, l2, memory);
  return launch + repack_us(p, c) + overlapping(loop, apart_us(p, c, makespan * 1e-6));
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

// Tiles of bx along C's long side and by along the short one.
template <class T>
double flat_tiles(const GemmArgs<T>& p, int bx, int by) {
  return std::ceil(std::max(p.M, p.N) / double(bx)) * std::ceil(std::min(p.M, p.N) / double(by));
}

// The main loops of such tiles: `all_k` is the sum of their depths, `most_k` that on one SM.
template <class T>
double flat_loop_us(const GemmArgs<T>& p, const WgmmaCosts& c, int sms, int bx, int by,
                    double all_k, double most_k) {
  const double multiply = most_k * 2e-6 * bx * (by + c.narrow) / c.tensor;
  // A narrow tile that is not K-major comes in as many rows, of 32 or 64 bytes, as a wide one.
  const bool y_is_a = p.M <= p.N, y_k_major = y_is_a ? p.op_a == Op::N : p.op_b == Op::T;
  const double a = requests_of_row(p.A, p.lda, c), b = requests_of_row(p.B, p.ldb, c);
  const double x = 2e-6 * bx * (y_is_a ? b : a);
  const double y = 2e-6 * (y_k_major ? by : std::max(by, 64)) * (y_is_a ? a : b);
  const double fetch = (x + y) * std::max(all_k / c.l2, most_k / c.fetch);
  const double uneven = all_k > 0 ? most_k * sms / all_k : 1;
  return overlapping(multiply, fetch, uneven_memory_us(p, c, uneven));
}

// The CTAs of a cluster exchange `results` million sums each, in `split` parts, add them up and store.
inline double exchange_us(const WgmmaCosts& c, double results, int split) {
  return (split > 1 ? c.cluster + results * c.exchange : 0) + results / split * c.add;
}

template <class T>
double split_k_us(const FusedArgs<T>& p, const Arch& arch, const SplitKTile& tile, int split) {
  const WgmmaCosts& c = arch.costs->wgmma;
  const double ctas = flat_tiles(p, tile.bx, tile.by) * split;
  const double k = std::ceil(std::ceil(p.K / 64.0) / split) * 64;
  // The fullest SM's CTAs. A cluster lies within one GPC, where some SMs are left over.
  const double filled = arch.sms * c.clusters[split];
  const double most = std::ceil(ctas / filled), waves = std::ceil(most / tile.per_sm);
  const double loop = flat_loop_us(p, c, arch.sms, tile.bx, tile.by, ctas * k, most * k);
  const double results = most * tile.bx * tile.by * 1e-6;
  // All CTAs of a cluster end their tile.
  const double epilogue = results * epilogue_k(p, *arch.costs) * 2 / c.tensor / split;
  return c.launch + repack_us(p, c) + c.wave * (waves - 1) + loop + epilogue +
         exchange_us(c, results, split) + apart_us(p, c, results / split);
}

// The fastest, or the one asked for.
template <class T>
Estimate best_split_k_tile(const FusedArgs<T>& p, const Arch& arch, int only) {
  return best_split(SPLIT_K_TILES, only, [&](const SplitKTile& tile, int split) {
    return split_k_us(p, arch, tile, split);
  });
}

// Narrow stream-K: the same tiles' k-tiles in equal shares, one a CTA, one CTA an SM
// -------------------------------------------------------------------------------------------------

struct StreamKTile {
  int bx, by;  // along C's long side, and along the short one
};
inline constexpr StreamKTile STREAM_K_TILES[] = {{64, 16},  {64, 32},   {64, 64},
                                                 {64, 128}, {128, 128}, {128, 256}};

template <class T>
double narrow_stream_k_us(const FusedArgs<T>& p, const Arch& arch, const StreamKTile& tile) {
  WgmmaCosts c = arch.costs->wgmma;
  c.memory *= c.stream_memory;
  const double tiles = flat_tiles(p, tile.bx, tile.by);
  const int k_tiles = std::max(1, cdiv(p.K, 64));
  const double ctas = std::min(tiles * k_tiles, double(arch.sms));
  const double share = std::ceil(tiles * k_tiles / ctas) * 64;
  const double loop = flat_loop_us(p, c, arch.sms, tile.bx, tile.by, tiles * k_tiles * 64, share);
  // A tile's results are stored once. Each CTA but the first stores its sums, and the first reads
  // them, one CTA's after the other's.
  const double results = tile.bx * tile.by * 1e-6, stores = std::ceil(tiles / ctas);
  const double parts = std::fmod(tiles, ctas) == 0 ? 0 : std::ceil(ctas / tiles);
  const double epilogue = results * stores * epilogue_k(p, *arch.costs) * 2 / c.tensor;
  return c.launch + repack_us(p, c) + loop + results * stores * c.store + epilogue +
         apart_us(p, c, results * stores) +
         (parts > 0 ? c.fixup + parts * (c.part + results * c.send) : 0);
}

// The fastest, or the one asked for.
template <class T>
Estimate best_stream_k_tile(const FusedArgs<T>& p, const Arch& arch, int only) {
  Estimate best{0, INFINITY};
  for (int i = 0; i < int{std::size(STREAM_K_TILES)}; ++i)
    if (only == ANY_VARIANT || only == i)
      if (const double us = narrow_stream_k_us(p, arch, STREAM_K_TILES[i]); us < best.us)
        best = {i, us};
  return best;
}

GEMM_BUILD_NAMESPACE_END
