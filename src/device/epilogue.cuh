// The end of every rung: the epilogue functor (epilogue.h) applied to sums, and results stored,
// masked at the edges.
#pragma once

#include "device/gemm_args.h"
#include "device/launch.h"
#include "device/scheduler.cuh"
#include "device/vec.cuh"

GEMM_BUILD_NAMESPACE_BEGIN

// C with a functor: what the stores below need of a GemmArgs.
template <class TC, class Functor>
struct Output {
  using TypeC = TC;
  int M, N;
  TC* C;
  int64_t ldc;
  Functor epilogue;
};
// The functor where alpha is all there is.
struct Scale {
  float alpha;
  static GEMM_DEVICE bool only_scales() { return true; }
  static GEMM_DEVICE bool reads_c() { return false; }
  GEMM_DEVICE float scale(float product) const { return alpha * product; }
  GEMM_DEVICE float combine(float product, float) const { return scale(product); }
  GEMM_DEVICE float operator()(float product, float) const { return scale(product); }
  template <int COUNT>
  static GEMM_DEVICE void activate(float (&)[COUNT]) {}
};

// Calls stores(output) for a kernel that stores many elements a thread: with Scale where that does,
// and with the whole epilogue in code of its own. In one code, what is seldom run lies between the
// stores, and instructions are fetched around it.
template <class... T, class Stores>
GEMM_DEVICE void with_epilogue(const GemmArgs<T...>& p, Stores&& stores) {
  using TC = typename GemmArgs<T...>::TypeC;
  if (p.epilogue.only_scales()) {
    stores(Output<TC, Scale>{p.M, p.N, p.C, p.ldc, {p.epilogue.alpha}});
  } else {
    Output<TC, Epilogue> out{p.M, p.N, p.C, p.ldc, p.epilogue};
    // What the compiler cannot know to be the same: it would compare and compute addresses once for
    // both branches, and keep the results in registers of the main loop.
    asm volatile("" : "+r"(out.M), "+r"(out.N), "+l"(out.C), "+l"(out.ldc));
    stores(out);
  }
}

// C = epilogue(acc, C) at element (m, n); nothing outside the matrix. Taught in v1.
template <class Out>
GEMM_DEVICE void store(const Out& p, int m, int n, float acc) {
  if (m >= p.M || n >= p.N) return;
  auto* c = p.C + m * p.ldc + n;
  if (p.epilogue.only_scales())
    acc = p.epilogue.scale(acc);
  else
    acc = p.epilogue(acc, p.epilogue.reads_c() ? float(*c) : 0.0f);
  *c = typename Out::TypeC(acc);
}

// store() of COUNT elements, the e-th at place(e): their reads of C do not wait for each other.
template <int COUNT, class Out, class Place>
GEMM_DEVICE void store_each(const Out& p, const float* acc, Place&& place) {
  using TC = typename Out::TypeC;
  const auto inside = [&](TileIndex at) { return at.m < p.M && at.n < p.N; };
  float x[COUNT];
  if (p.epilogue.only_scales()) {
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] = p.epilogue.scale(acc[e]);
  } else {
    float was[COUNT] = {};
    if (p.epilogue.reads_c())
#pragma unroll
      for (int e = 0; e < COUNT; ++e)
        if (const TileIndex at = place(e); inside(at)) was[e] = float(p.C[at.m * p.ldc + at.n]);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] = p.epilogue.combine(acc[e], was[e]);
    p.epilogue.activate(x);
  }
#pragma unroll
  for (int e = 0; e < COUNT; ++e)
    if (const TileIndex at = place(e); inside(at)) p.C[at.m * p.ldc + at.n] = TC(x[e]);
}

// One element, or four floats in 16 aligned bytes: added to floats, stored.
template <int VEC, class T>
GEMM_DEVICE void add_elements(float* sum, const T* from) {
  static_assert(VEC == 1 || VEC == Vec<T>::SIZE);
  if constexpr (VEC == 1) {
    *sum += float(*from);
  } else {
    const Vec<T> four = load_vec(from);
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum[e] += four[e];
  }
}
template <int VEC, class T>
GEMM_DEVICE void put_elements(T* to, const float* x) {
  static_assert(VEC == 1 || VEC == Vec<T>::SIZE);
  if constexpr (VEC == 1) {
    *to = T(*x);
  } else {
    Vec<T> four = {};
#pragma unroll
    for (int e = 0; e < VEC; ++e) four.set(e, x[e]);
    store_vec(to, four);
  }
}

// Stores a thread's results in one column of a tile, from row to row. A result is VEC columns wide,
// from column n of C on. The tile begins at row `top` of C, and the thread has its rows m, m + step,
// ... below `end`. A pointer moves by a constant: addresses from row and column would be most of the
// instructions behind a short main loop. AT_ONCE rows do not wait for each other.
// The caller's add_sums(m, x, for_each_row) adds sums to x. It calls for_each_row(work), which calls
// work(r) for each row m + r * step that exists; that row's sums belong at x + r * VEC.
template <int VEC, int AT_ONCE, class Out, class AddSums>
GEMM_DEVICE void store_down(const Out& out, int top, int m, int step, int end, int n,
                            AddSums&& add_sums) {
  auto* c = out.C + (top + m) * out.ldc + n;
  const int64_t stride = step * out.ldc;
  for (; m < end; m += AT_ONCE * step, c += AT_ONCE * stride) {
    const auto for_each_row = [&](auto&& work) {
#pragma unroll
      for (int r = 0; r < AT_ONCE; ++r)
        if (m + r * step < end) work(r);
    };
    float x[AT_ONCE * VEC] = {}, was[AT_ONCE * VEC] = {};
    add_sums(m, x, for_each_row);
    if (out.epilogue.reads_c())
      for_each_row([&](int r) { add_elements<VEC>(&was[r * VEC], c + r * stride); });
#pragma unroll
    for (int e = 0; e < AT_ONCE * VEC; ++e) x[e] = out.epilogue.combine(x[e], was[e]);
    out.epilogue.activate(x);
    for_each_row([&](int r) { put_elements<VEC>(c + r * stride, &x[r * VEC]); });
  }
}

// 16 bytes of row m from column n on: one 128-bit store if ALIGNED (all_aligned), else element by
// element. Taught in v5. Sums are scaled also where alpha is 1: stored as they are, they would have
// to lie in four registers in a row in the main loop too, and multiply-adds would find two operands
// in one register bank (49 of 512, as compiled).
template <bool ALIGNED, class Out>
GEMM_DEVICE void store_group(const Out& p, int m, int n, const float* acc) {
  using TC = typename Out::TypeC;
  constexpr int VEC = Vec<TC>::SIZE;
  if constexpr (ALIGNED) {
    if (m >= p.M || n >= p.N) return;
    TC* c = p.C + m * p.ldc + n;
    Vec<TC> out = {};
    if (p.epilogue.only_scales()) {
#pragma unroll
      for (int e = 0; e < VEC; ++e) out.set(e, TC(p.epilogue.scale(acc[e])));
    } else {
      if (p.epilogue.reads_c()) out = load_vec(c);
      float x[VEC];
#pragma unroll
      for (int e = 0; e < VEC; ++e) x[e] = p.epilogue.combine(acc[e], float(out[e]));
      p.epilogue.activate(x);
#pragma unroll
      for (int e = 0; e < VEC; ++e) out.set(e, TC(x[e]));
      // C is read group by group: all at once takes registers. In f32 the loop is better without.
      if constexpr (sizeof(TC) == 2) asm volatile("" ::: "memory");
    }
    store_vec(c, out);
  } else {
    store_each<VEC>(p, acc, [&](int e) { return TileIndex{m, n + e}; });
  }
}

// Two elements as one value, which one instruction moves.
template <class T>
using Pair = std::conditional_t<sizeof(T) == 2, uint32_t, uint2>;

template <class T>
GEMM_DEVICE void unpack(const Pair<T>& pair, float& left, float& right) {
  T x[2];
  memcpy(x, &pair, sizeof x);
  left = float(x[0]);
  right = float(x[1]);
}

// Elements (m, n) and (m, n + 1), the neighbours that an mma's accumulator holds; n is even. One
// store of both if ALIGNED (all_aligned), else element by element. Taught in v16.
template <bool ALIGNED, class Out>
GEMM_DEVICE void store_pair(const Out& p, int m, int n, float left, float right) {
  using TC = typename Out::TypeC;
  if constexpr (ALIGNED) {
    if (m >= p.M || n >= p.N) return;
    auto* c = reinterpret_cast<Pair<TC>*>(p.C + m * p.ldc + n);
    float x[2] = {};
    if (p.epilogue.only_scales()) {
      x[0] = p.epilogue.scale(left);
      x[1] = p.epilogue.scale(right);
    } else {
      float was[2] = {};
      if (p.epilogue.reads_c()) unpack<TC>(*c, was[0], was[1]);
      x[0] = p.epilogue.combine(left, was[0]);
      x[1] = p.epilogue.combine(right, was[1]);
      p.epilogue.activate(x);
    }
    const TC out[2] = {TC(x[0]), TC(x[1])};
    Pair<TC> pair{};
    memcpy(&pair, out, sizeof pair);
    *c = pair;
  } else {
    const float acc[2] = {left, right};
    store_each<2>(p, acc, [&](int e) { return TileIndex{m, n + e}; });
  }
}

GEMM_BUILD_NAMESPACE_END
