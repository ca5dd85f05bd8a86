// The end of every rung: C = alpha * acc + beta * C, masked at the edges. beta == 0 never reads C,
// which may hold NaN.
#pragma once

#include "device/vec.cuh"
#include "rung.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Element (m, n) of C; nothing outside the matrix. Taught in v1.
template <class T>
GEMM_DEVICE void store(const GemmArgs<T>& p, int m, int n, float acc) {
  if (m >= p.M || n >= p.N) return;
  T* c = p.C + m * p.ldc + n;
  *c = T(p.beta == 0 ? p.alpha * acc : p.alpha * acc + p.beta * float(*c));
}

// 16 bytes of row m from column n on: one 128-bit store if ALIGNED (all_aligned), else element by
// element. Taught in v5.
template <bool ALIGNED, class T>
GEMM_DEVICE void store_group(const GemmArgs<T>& p, int m, int n, const float* acc) {
  constexpr int VEC = Vec<T>::SIZE;
  if constexpr (ALIGNED) {
    if (m >= p.M || n >= p.N) return;
    T* c = p.C + m * p.ldc + n;
    Vec<T> out = {};
    if (p.beta != 0) out = load_vec(c);
#pragma unroll
    for (int e = 0; e < VEC; ++e)
      out.set(e, T(p.beta == 0 ? p.alpha * acc[e] : p.alpha * acc[e] + p.beta * float(out[e])));
    store_vec(c, out);
  } else {
#pragma unroll
    for (int e = 0; e < VEC; ++e) store(p, m, n + e, acc[e]);
  }
}

// Elements (m, n) and (m, n + 1), the neighbours that an mma's accumulator holds; n is even. One
// store of both if ALIGNED (all_aligned), else element by element. Taught in v16.
template <bool ALIGNED, class T>
GEMM_DEVICE void store_pair(const GemmArgs<T>& p, int m, int n, float left, float right) {
  if constexpr (ALIGNED) {
    using Pair = std::conditional_t<sizeof(T) == 2, uint32_t, uint2>;
    if (m >= p.M || n >= p.N) return;
    auto* c = reinterpret_cast<Pair*>(p.C + m * p.ldc + n);
    left *= p.alpha;
    right *= p.alpha;
    if (p.beta != 0) {
      const Pair old = *c;
      T was[2];
      memcpy(was, &old, sizeof was);
      left += p.beta * float(was[0]);
      right += p.beta * float(was[1]);
    }
    const T out[2] = {T(left), T(right)};
    Pair pair{};
    memcpy(&pair, out, sizeof pair);
    *c = pair;
  } else {
    store(p, m, n, left);
    store(p, m, n + 1, right);
  }
}

GEMM_BUILD_NAMESPACE_END
