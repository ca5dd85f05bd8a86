// CUDA's small vector types. The 8- and 16-byte ones copy themselves as ONE vector access, as the
// GPU does; a plain struct would be split into scalars by the compiler, and traced as such.
#pragma once

#include <cstdint>

// Kernels copy bits between these types and their own with memcpy.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclass-memaccess"
#endif

// All that kernels touch is inlined: the plain and the traced build then share no compiled
// function.
#define GEMM_SIM_INLINE inline __attribute__((always_inline))

namespace gemm::sim::runtime {
// Throws Error: an access of `bytes` bytes at an address that is no multiple of it.
[[noreturn]] void misaligned(const void* address, int bytes);
}  // namespace gemm::sim::runtime

namespace gemm::sim::detail {

// `may_alias`: any type's bytes may be read through these.
typedef uint32_t Bits8 __attribute__((vector_size(8), may_alias));
typedef uint32_t Bits16 __attribute__((vector_size(16), may_alias));

template <class Bits>
GEMM_SIM_INLINE void check_aligned(const void* p) {
  if (__builtin_expect(reinterpret_cast<uintptr_t>(p) % sizeof(Bits) != 0, false))
    runtime::misaligned(p, sizeof(Bits));
}

template <class Bits>
GEMM_SIM_INLINE void copy_as(void* to, const void* from) {
  check_aligned<Bits>(from);
  check_aligned<Bits>(to);
  *static_cast<Bits*>(to) = *static_cast<const Bits*>(from);
}

}  // namespace gemm::sim::detail

#define GEMM_SIM_COPIED_AS(Type, Bits)                                \
  Type() = default;                                                   \
  GEMM_SIM_INLINE Type(const Type& from) {                            \
    gemm::sim::detail::copy_as<gemm::sim::detail::Bits>(this, &from); \
  }                                                                   \
  GEMM_SIM_INLINE Type& operator=(const Type& from) {                 \
    gemm::sim::detail::copy_as<gemm::sim::detail::Bits>(this, &from); \
    return *this;                                                     \
  }

#define GEMM_SIM_VECTOR2(Type, T)                                \
  struct alignas(8) Type {                                       \
    T x, y;                                                      \
    GEMM_SIM_COPIED_AS(Type, Bits8)                              \
    GEMM_SIM_INLINE constexpr Type(T x_, T y_) : x(x_), y(y_) {} \
  };                                                             \
  GEMM_SIM_INLINE constexpr Type make_##Type(T x, T y) { return {x, y}; }

#define GEMM_SIM_VECTOR4(Type, T)                                                          \
  struct alignas(16) Type {                                                                \
    T x, y, z, w;                                                                          \
    GEMM_SIM_COPIED_AS(Type, Bits16)                                                       \
    GEMM_SIM_INLINE constexpr Type(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {} \
  };                                                                                       \
  GEMM_SIM_INLINE constexpr Type make_##Type(T x, T y, T z, T w) { return {x, y, z, w}; }

GEMM_SIM_VECTOR2(int2, int)
GEMM_SIM_VECTOR2(uint2, unsigned)
GEMM_SIM_VECTOR2(float2, float)
GEMM_SIM_VECTOR4(int4, int)
GEMM_SIM_VECTOR4(uint4, unsigned)
GEMM_SIM_VECTOR4(float4, float)

#undef GEMM_SIM_VECTOR4
#undef GEMM_SIM_VECTOR2
#undef GEMM_SIM_COPIED_AS

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  GEMM_SIM_INLINE constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
  GEMM_SIM_INLINE constexpr dim3(const uint3& v) : x(v.x), y(v.y), z(v.z) {}
  GEMM_SIM_INLINE constexpr operator uint3() const { return {x, y, z}; }
};
