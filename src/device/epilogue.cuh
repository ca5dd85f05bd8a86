// The end of every rung: the epilogue functor (epilogue.h) applied to sums, and results stored,
// masked at the edges.
#pragma once

#include "device/gemm_args.h"
#include "device/scheduler.cuh"
#include "device/vec.cuh"
#include "rung.h"

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
  static GEMM_DEVICE bool has_vectors() { return false; }
  template <class T>
  static GEMM_DEVICE const T* c_at(int, int, const T* d) {
    return d;
  }
  GEMM_DEVICE float scale(float product) const { return alpha * product; }
  GEMM_DEVICE float combine(float product, float) const { return scale(product); }
  template <class T>
  GEMM_DEVICE float element(int, int, float product, const T*) const {
    return scale(product);
  }
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
    acc = p.epilogue.element(m, n, acc, static_cast<const typename Out::TypeC*>(c));
  *c = typename Out::TypeC(acc);
}

// A pointer of the epilogue, of which the compiler computes nothing ahead of its use: it would keep
// addresses and comparisons in registers of the main loop, and spill others for them.
template <class T>
GEMM_DEVICE const T* at_use(const void* pointer) {
#if GEMM_ON_GPU
  asm volatile("" : "+l"(pointer));
#endif
  return static_cast<const T*>(pointer);
}

// COUNT neighbours of a vector from index i on; 0 from `end` on.
template <int COUNT, class T>
GEMM_DEVICE void load_segment(float (&x)[COUNT], const T* vector, int i, int end) {
#pragma unroll
  for (int e = 0; e < COUNT; ++e) x[e] = i + e < end ? float(vector[i + e]) : 0.0f;
}

// The scales of COUNT neighbours in row m, from column n on, and what biases add to them.
template <int COUNT>
GEMM_DEVICE void scale_segment(const Epilogue& epilogue, int m, int n, int N, float (&x)[COUNT]) {
  float factors[COUNT];
  if (epilogue.scale_columns != nullptr) {
    load_segment(factors, at_use<float>(epilogue.scale_columns), n, N);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] *= factors[e];
  }
  if (epilogue.scale_rows != nullptr) {
    const float factor = at_use<float>(epilogue.scale_rows)[m];
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] *= factor;
  }
}
template <class TC, int COUNT>
GEMM_DEVICE void add_bias_segment(const Epilogue& epilogue, int m, int n, int N,
                                  float (&x)[COUNT]) {
  float terms[COUNT];
  if (epilogue.bias != nullptr) {
    load_segment(terms, at_use<TC>(epilogue.bias), n, N);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] += terms[e];
  }
  if (epilogue.row_bias != nullptr) {
    const auto term = float(at_use<TC>(epilogue.row_bias)[m]);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] += term;
  }
}
// What an element at (m, n) is scaled by, and what is added to it.
GEMM_DEVICE float scale_at(const Epilogue& e, int m, int n) {
  const float row = e.scale_rows == nullptr ? 1.0f : at_use<float>(e.scale_rows)[m];
  return e.scale_columns == nullptr ? row : row * at_use<float>(e.scale_columns)[n];
}
template <class TC>
GEMM_DEVICE float bias_at(const Epilogue& e, int m, int n) {
  const float row = e.row_bias == nullptr ? 0.0f : float(at_use<TC>(e.row_bias)[m]);
  return e.bias == nullptr ? row : row + float(at_use<TC>(e.bias)[n]);
}
GEMM_DEVICE float scale_at(const Scale&, int, int) { return 1; }
template <class TC>
GEMM_DEVICE float bias_at(const Scale&, int, int) {
  return 0;
}

template <int COUNT>
GEMM_DEVICE void scale_segment(const Scale&, int, int, int, float (&)[COUNT]) {}
template <class TC, int COUNT>
GEMM_DEVICE void add_bias_segment(const Scale&, int, int, int, float (&)[COUNT]) {}

// COUNT neighbours in row m from column n on, of their sums and of C's old values.
template <class TC, int COUNT, class Functor>
GEMM_DEVICE void apply_to_segment(const Functor& epilogue, int m, int n, int N,
                                  const float (&was)[COUNT], float (&x)[COUNT]) {
  if (epilogue.has_vectors()) scale_segment(epilogue, m, n, N, x);
#pragma unroll
  for (int e = 0; e < COUNT; ++e) x[e] = epilogue.combine(x[e], was[e]);
  if (epilogue.has_vectors()) add_bias_segment<TC>(epilogue, m, n, N, x);
  epilogue.activate(x);
}

// The same of COUNT elements, the e-th at place(e), whose reads of C do not wait for each other.
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
        if (const TileIndex at = place(e); inside(at))
          was[e] = float(
              *p.epilogue.c_at(at.m, at.n, static_cast<const TC*>(p.C + at.m * p.ldc + at.n)));
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] = acc[e];
    if (p.epilogue.has_vectors())
#pragma unroll
      for (int e = 0; e < COUNT; ++e)
        if (const TileIndex at = place(e); inside(at)) x[e] *= scale_at(p.epilogue, at.m, at.n);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) x[e] = p.epilogue.combine(x[e], was[e]);
    if (p.epilogue.has_vectors())
#pragma unroll
      for (int e = 0; e < COUNT; ++e)
        if (const TileIndex at = place(e); inside(at)) x[e] += bias_at<TC>(p.epilogue, at.m, at.n);
    p.epilogue.activate(x);
  }
#pragma unroll
  for (int e = 0; e < COUNT; ++e)
    if (const TileIndex at = place(e); inside(at)) p.C[at.m * p.ldc + at.n] = TC(x[e]);
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
      if (p.epilogue.reads_c()) out = load_vec(p.epilogue.c_at(m, n, static_cast<const TC*>(c)));
      float x[VEC], was[VEC];
#pragma unroll
      for (int e = 0; e < VEC; ++e) x[e] = acc[e], was[e] = float(out[e]);
      apply_to_segment<TC>(p.epilogue, m, n, p.N, was, x);
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
    TC* const c = p.C + m * p.ldc + n;
    float x[2] = {};
    if (p.epilogue.only_scales()) {
      x[0] = p.epilogue.scale(left);
      x[1] = p.epilogue.scale(right);
    } else {
      float was[2] = {};
      if (p.epilogue.reads_c())
        unpack<TC>(
            *reinterpret_cast<const Pair<TC>*>(p.epilogue.c_at(m, n, static_cast<const TC*>(c))),
            was[0], was[1]);
      x[0] = left;
      x[1] = right;
      apply_to_segment<TC>(p.epilogue, m, n, p.N, was, x);
    }
    const TC out[2] = {TC(x[0]), TC(x[1])};
    Pair<TC> pair{};
    memcpy(&pair, out, sizeof pair);
    *reinterpret_cast<Pair<TC>*>(c) = pair;
  } else {
    const float acc[2] = {left, right};
    store_each<2>(p, acc, [&](int e) { return TileIndex{m, n + e}; });
  }
}

GEMM_BUILD_NAMESPACE_END
