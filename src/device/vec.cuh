// 16 bytes as one value: 4 floats or 8 halves (or bf16), moved by one 128-bit instruction.
#pragma once

#include <cstring>

#include "device/gemm_args.h"
#include "device/launch.h"

GEMM_BUILD_NAMESPACE_BEGIN

// Kept as four words, not as an array of T: nvcc would hold halves one a register, and a load that
// a bounds check may skip would be waited for at once, to merge it half by half with zeros,
// instead of at its first use.
template <class T>
struct Vec {
  static constexpr int SIZE = 16 / sizeof(T);
  uint4 raw;

  GEMM_DEVICE T operator[](int e) const {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    T x;
    memcpy(&x, reinterpret_cast<const char*>(words) + e * sizeof(T), sizeof(T));
    return x;
  }
  GEMM_DEVICE void set(int e, T x) {
    uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    memcpy(reinterpret_cast<char*>(words) + e * sizeof(T), &x, sizeof(T));
    raw = {words[0], words[1], words[2], words[3]};
  }
};

// One 128-bit load; `p` must be 16-byte aligned.
template <class T>
GEMM_DEVICE Vec<T> load_vec(const T* p) {
  return {*reinterpret_cast<const uint4*>(p)};
}

// One 128-bit store; `p` must be 16-byte aligned.
template <class T>
GEMM_DEVICE void store_vec(T* p, const Vec<T>& v) {
  *reinterpret_cast<uint4*>(p) = v.raw;
}

// Whether A, B and C are 16-byte aligned: base, row stride and row length.
// Rungs then launch their ALIGNED kernel, which moves 16 bytes at once, else one that moves
// elements. The host chooses, once: both paths in one kernel cost registers (80 bytes of spills).
template <class... T>
bool all_aligned(const GemmArgs<T...>& p) {
  const auto aligned = []<class E>(const E* base, int64_t ld, int cols) {
    constexpr int VEC = Vec<E>::SIZE;
    return reinterpret_cast<uintptr_t>(base) % 16 == 0 && ld % VEC == 0 && cols % VEC == 0;
  };
  return aligned(p.A, p.lda, p.K) && aligned(p.B, p.ldb, p.N) && aligned(p.C, p.ldc, p.N);
}

// Row (or column) i of the thread tile at `t`, of TILES along that side: neighbouring threads take
// neighbouring 16-byte groups. Taught in v7.
template <int VEC, int TILES>
constexpr GEMM_DEVICE int tile_row(int t, int i) {
  return i / VEC * (TILES * VEC) + t * VEC + i % VEC;
}

// N shared-memory elements to float registers by 128-bit loads; consecutive groups are `stride`
// elements apart.
template <class T, int N>
GEMM_DEVICE void load_fragment(float (&r)[N], const T* s, int stride) {
  static_assert(N % Vec<T>::SIZE == 0, "a fragment is whole 16-byte groups");
#pragma unroll
  for (int i = 0; i < N; i += Vec<T>::SIZE) {
    const Vec<T> v = load_vec(s + i / Vec<T>::SIZE * stride);
#pragma unroll
    for (int e = 0; e < Vec<T>::SIZE; ++e) r[i + e] = float(v[e]);
  }
}

// Whether C's rows are 16-byte aligned, so that pairs can be stored at once and TMA can store
// tiles.
template <class... T>
bool has_aligned_c(const GemmArgs<T...>& p) {
  constexpr int VEC = Vec<typename GemmArgs<T...>::TypeC>::SIZE;
  return reinterpret_cast<uintptr_t>(p.C) % 16 == 0 && p.ldc % VEC == 0 && p.N % VEC == 0 &&
         p.batch.stride_c % VEC == 0;
}

GEMM_BUILD_NAMESPACE_END
