// Sums of a tile whose K is shared by the CTAs of a cluster, each with a part.
//
// A tile's sums come in units of 64 x 8: a thread of a warpgroup has four sums of each. CTA
// u % split owns unit u: it adds up all parts of it. If a CTA owned neighbouring units, all CTAs
// would send to it for many units in a row.
#pragma once

#include "device/ptx/cluster.cuh"
#include "device/ptx/warp_roles.cuh"
#include "device/vec.cuh"
#include "engine/unit_rows.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// Who adds up which of a tile's units.
struct UnitShares {
  int units, split;
  int most = split == 1 ? units : cdiv(units, split);  // of one CTA
  GEMM_DEVICE int count(int cta) const { return (units - cta + split - 1) / split; }
  GEMM_DEVICE int unit(int cta, int nth) const { return nth * split + cta; }
};

// Sends the sums of `count` units, from `first` on, to the CTAs that add them up. They are sums
// over part `part` of K. `parts`: (parts of K, shares.most, 128), at the same place in each CTA's
// shared memory.
template <int SUMS>
GEMM_DEVICE void send_units(Vec<float>* parts, UnitShares shares, int part, int first, int count,
                            const float (&acc)[SUMS] GEMM_CALLER_ARG) {
  int cta = first % shares.split, nth = first / shares.split;
#pragma unroll
  for (int i = 0; i < SUMS / 4; ++i) {
    if (i >= count) return;
    Vec<float> four = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) four.set(e, acc[i * 4 + e]);
    Vec<float>* const to = parts + (part * shares.most + nth) * 128 + threadIdx.x % 128;
    *map_shared(to, cta GEMM_CALLER_PASS) = four;
    if (++cta == shares.split) cta = 0, ++nth;
  }
}

// Adds up and stores the units of CTA `cta`, at most `room` at a time, by WORKERS threads. The sums
// go to C by way of `rows`, so that neighbouring threads store neighbours in a row. A loop, not
// unrolled: one tile a CTA runs this code once, and thousands of instructions take longer to fetch
// than to execute. origin(unit, x, y): where in C a unit begins.
template <int WORKERS, class T, class Origin>
GEMM_DEVICE void store_sums(const GemmArgs<T>& p, const Vec<float>* parts, float* rows, int room,
                            UnitShares shares, int part_count, int cta, bool swapped,
                            bool aligned_c, Origin&& origin GEMM_CALLER_ARG) {
  const int tid = threadIdx.x, count = shares.count(cta);
  for (int first = 0; first < count; first += room) {
    const int units = count - first < room ? count - first : room;
    if (first > 0) named_barrier_sync(1, WORKERS GEMM_CALLER_PASS);  // those before are stored
#pragma unroll 1
    for (int i = tid / 128; i < units; i += WORKERS / 128) {
      float sums[4] = {};
      for (int part = 0; part < part_count; ++part) {
        const Vec<float> four = parts[(part * shares.most + first + i) * 128 + tid % 128];
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[e] += four[e];
      }
      put_unit(rows, i, swapped, sums);
    }
    named_barrier_sync(1, WORKERS GEMM_CALLER_PASS);
    store_units(p, rows, units, swapped, aligned_c, tid, WORKERS,
                [&](int i, int& x, int& y) { origin(shares.unit(cta, first + i), x, y); });
  }
}

GEMM_BUILD_NAMESPACE_END
